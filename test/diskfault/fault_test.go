package diskfault

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKilledAtAnyCallTheStoreKeepsWhatWasAcked(t *testing.T) {
	t.Parallel()
	seed, i := seedOf(t), newInspector(t)
	dry := strace(t, small(t.TempDir(), seed), someBytes)
	require.True(t, dry.facts.Ended)
	dry.check(t, i)
	met := 0
	for _, c := range []struct {
		call   string
		sample int
	}{{"pwrite64", 10}, {"fdatasync", 6}, {"fsync", 2}, {"fallocate", 1}, {"renameat", 1}, {"ftruncate", 1}, {"write", 4}} {
		all := dry.trace.count(c.call)
		require.NotZero(t, all, c.call)
		for _, n := range moments(seed, all, c.sample) {
			t.Run(fmt.Sprintf("%s %d", c.call, n), func(t *testing.T) {
				r := strace(t, small(t.TempDir(), seed), someBytes, fmt.Sprintf("%s:signal=KILL:when=%d", c.call, n))
				if r.trace.killed {
					met++
				}
				r.check(t, i)
			})
		}
	}
	assert.Positive(t, met, "no worker was killed")
}

func TestScenario_B13_ASyncThatFailsIsNeverFollowedByAWrongAnswer(t *testing.T) {
	t.Parallel()
	seed, i := seedOf(t), newInspector(t)
	stops := 0
	for name, planOf := range map[string]func(string, uint64) plan{"sealing": small, "plain": plain} {
		dry := strace(t, planOf(t.TempDir(), seed), someBytes)
		for _, form := range []string{"%d", "%d+"} {
			for _, n := range moments(seed, dry.trace.count("fdatasync"), 8) {
				when := fmt.Sprintf(form, n)
				t.Run(name+" "+when, func(t *testing.T) {
					r := strace(t, planOf(t.TempDir(), seed), someBytes, "fdatasync:error=EIO:when="+when)
					if r.checkStop(t) {
						stops++
					}
					r.check(t, i)
				})
			}
		}
	}
	assert.Positive(t, stops)
}

// checkStop holds that a store stops if and only if a meta page was written and may not have been synced. It reports
// whether it did.
func (r *run) checkStop(t *testing.T) bool {
	t.Helper()
	o := checkOrder(r.trace, r.plan)
	if o.failStop == 0 {
		assert.False(t, r.facts.Stopped, "the meta page was never written: nothing of the commit can be seen")
		return false
	}
	if _, err := os.Stat(filepath.Join(r.plan.Dir, "STORE")); err == nil {
		assert.FileExists(t, filepath.Join(r.plan.Dir, "CHECK"), "the next Open would believe the cache")
	}
	return !o.atClose && r.facts.Opened && assert.Truef(t, r.facts.Stopped, "a meta page was not synced: %q", r.lines)
}

func TestNoErrorOfAnyCallMakesAWrongAnswer(t *testing.T) {
	t.Parallel()
	seed, i := seedOf(t), newInspector(t)
	dry, met := strace(t, small(t.TempDir(), seed), someBytes), 0
	for _, c := range []struct {
		call, fault string
		sample      int
	}{
		{"pwrite64", "error=EIO", 6}, {"pwrite64", "error=ENOSPC", 6}, {"fsync", "error=EIO", 4}, {"fallocate", "error=EIO", 1},
		{"ftruncate", "error=EIO", 1}, {"renameat", "error=EIO", 1}, {"mkdirat", "error=ENOSPC", 1},
		{"pwrite64", "retval=0", 4}, // accepted nothing
	} {
		all := dry.trace.count(c.call)
		require.NotZero(t, all, c.call)
		for _, form := range []string{"%d", "%d+"} {
			for _, n := range moments(seed, all, c.sample) {
				fault := fmt.Sprintf("%s:%s:when="+form, c.call, c.fault, n)
				t.Run(fault, func(t *testing.T) {
					r := strace(t, small(t.TempDir(), seed), someBytes, fault)
					if r.trace.injected() {
						met++
					}
					r.check(t, i)
				})
			}
		}
	}
	assert.Positive(t, met, "no call failed")
}

// The kernel tells an error of writing once: where the store waits for what it has asked the disk to write, it is told, and
// a sync after that says nothing.
func TestAnErrorOfWritingBackIsAnErrorOfTheFile(t *testing.T) {
	t.Parallel()
	seed, i := seedOf(t), newInspector(t)
	large := func() plan {
		p := small(t.TempDir(), seed)
		p.Entries, p.Batch, p.Segment, p.Value = 900, 64, 400, 4000
		return p
	}
	for _, c := range []struct {
		fault string
		all   bool // of the errors of writing
	}{{"error=EIO:when=1+", true}, {"error=ENOSPC:when=1+", true}, {"error=EIO:when=1", false}, {"error=ENOSYS:when=1+", false}} {
		t.Run(c.fault, func(t *testing.T) {
			r := strace(t, large(), someBytes, "sync_file_range:"+c.fault)
			require.True(t, r.trace.injected())
			files, err := filepath.Glob(filepath.Join(r.plan.Dir, "sealed", "*.seg")) // before the inspector seals
			require.NoError(t, err)
			if c.all {
				assert.Empty(t, files, "a file counts whose writes have failed")
			}
			r.check(t, i)
		})
	}
}
