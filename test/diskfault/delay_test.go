package diskfault

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// delays are in microseconds; the order of the calls decides, not the clock.
const (
	shortDelay = int(200 * time.Millisecond / time.Microsecond)
	longDelay  = int(time.Second / time.Microsecond)
)

func TestNothingIsAckedOrPublishedBeforeADelayedSyncReturns(t *testing.T) {
	t.Parallel()
	seed, i := seedOf(t), newInspector(t)
	delay := shortDelay
	if *long {
		delay = longDelay
	}
	dry := strace(t, small(t.TempDir(), seed), someBytes)
	met := 0
	for _, side := range []string{"delay_enter", "delay_exit"} {
		for _, lanes := range []int{1, 4} {
			for _, n := range moments(seed, min(dry.trace.count("fdatasync"), 20), 3) {
				t.Run(fmt.Sprintf("%s %d lanes %d", side, lanes, n), func(t *testing.T) {
					p := small(t.TempDir(), seed)
					p.Lanes, p.Entries = lanes, p.Entries/lanes
					r := strace(t, p, someBytes, fmt.Sprintf("fdatasync:%s=%d:when=%d", side, delay, n))
					require.True(t, r.facts.Ended)
					if r.trace.injected() {
						met++
					}
					// The rule is about each entry, whatever other entries do meanwhile: two syncs begin after its
					// commit and return before it is acked, or an effect of it leaves.
					r.check(t, i)
				})
			}
		}
	}
	assert.Positive(t, met, "no sync was delayed")
}
