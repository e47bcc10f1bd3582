package sim

import (
	"flag"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	oneSeed   = flag.Uint64("seed", 0, "TestSchedules: run the schedule of this seed alone, and tell what happens in it")
	schedules = flag.Uint64("schedules", 0, "TestSchedules: how many schedules are run, each of a seed of its own; 0: 16,000, or fewer if they take more than ten seconds")
	strict    = flag.Bool("strict", false, "judge, too, that a message whose ID was reused is not both rejected and run; see doc.go")
)

// An ordinary run of the test.
const (
	ordinary = 16_000
	enough   = 10 * time.Second
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(1000) // a schedule keeps little, and throws it all away at its end
	goleak.VerifyTestMain(m)
}

// TestSchedules runs the schedules of the seeds from 1 on.
func TestSchedules(t *testing.T) {
	if *oneSeed != 0 {
		synctest.Test(t, func(t *testing.T) { alone(t, *oneSeed) })
		return
	}
	limit, began := *schedules, time.Now()
	var next, done, failed atomic.Uint64
	if limit == 0 {
		limit = ordinary
		// Outside of the bubbles, by real time.
		defer time.AfterFunc(enough, func() { next.Store(limit) }).Stop()
	}
	t.Run("all", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("some", func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					for seed := next.Add(1); seed <= limit && failed.Load() == 0; seed = next.Add(1) {
						if play(draw(seed), nil) != "" && failed.CompareAndSwap(0, seed) {
							t.Error(story(seed))
						}
						done.Add(1)
					}
				})
			})
		}
	})
	took := time.Since(began)
	t.Logf("%d schedules in %v, %.0f/s", done.Load(), took.Round(time.Millisecond), float64(done.Load())/took.Seconds())
}

// story tells of a seed that fails.
func story(seed uint64) string {
	again := "go test ./internal/sim -run TestSchedules -seed " + formatUint(seed)
	if *strict {
		again += " -strict"
	}
	return "seed " + formatUint(seed) + ": " + report(draw(seed), nil) + "Again: " + again
}

// alone runs one seed and tells what happens.
func alone(t *testing.T, seed uint64) {
	s := draw(seed)
	w := run(s, nil, true)
	t.Logf("seed %d:\n%s", seed, strings.Join(w.trace, "\n"))
	if w.wrong != "" {
		t.Error(story(seed))
	}
}

// FuzzSchedule lets bytes decide what happens.
func FuzzSchedule(f *testing.F) {
	for seed := range uint64(16) {
		f.Add(draw(seed + 1).encode())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) {
			if s := decode(data); play(s, nil) != "" {
				t.Error(report(s, nil))
			}
		})
	})
}

func TestAScheduleAlwaysRunsAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := uint64(1); seed <= 300; seed++ {
			s := draw(seed)
			require.Equal(t, s, decode(s.encode()), "seed %d", seed)
			require.Equal(t, run(s, nil, true).trace, run(s, nil, true).trace, "seed %d", seed)
		}
	})
}

// TestSchedulesGetEverywhere guards against a simulator that finds nothing because it does nothing.
func TestSchedulesGetEverywhere(t *testing.T) {
	met := map[string]int{}
	synctest.Test(t, func(*testing.T) {
		for seed := uint64(1); seed <= 2000; seed++ {
			for _, line := range run(draw(seed), nil, true).trace {
				for _, sign := range signs {
					if strings.Contains(line, sign) {
						met[sign]++
					}
				}
			}
		}
	})
	for _, sign := range signs {
		assert.GreaterOrEqual(t, met[sign], 5, "2000 schedules should show more often: %s", sign)
	}
}

// signs are parts of traces that show that something has happened.
var signs = append([]string{
	": granted", "#1, attempt", ": busy", ": done", ": mismatch", "succeeded, <nil>", "dead-lettered, <nil>", "parked-unknown, <nil>", "state has moved",
	"claim or lease is not current", "the process dies", "a process starts", "meanwhile:", "attempt 3", "is lost",
	"is refused", "the answer is lost", "parked", "delayed", "forgets the last",
}, faultNames[:]...)
