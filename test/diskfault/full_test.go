package diskfault

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// large is a plan whose file grows several times.
func large(dir string, seed uint64) plan {
	p := small(dir, seed)
	p.Entries, p.Value, p.Patient = 120, 200_000, true
	return p
}

func TestScenario_B14_AFullDiskIsRefusedByNameAndTheWorkGoesOnWithoutARestart(t *testing.T) {
	t.Parallel()
	seed, i := seedOf(t), newInspector(t)
	dry := strace(t, large(t.TempDir(), seed), someBytes)
	refusals := 0
	for _, c := range []struct {
		name   string
		faults []string
		call   string
		sample int
	}{
		{"no room to reserve", []string{"fallocate:error=ENOSPC:when=%d..%d"}, "fallocate", 2},
		{"no room when pages are written", []string{"pwrite64:error=ENOSPC:when=%d..%d"}, "pwrite64", 4},
		{"no room on a file system that cannot reserve", []string{"fallocate:error=EOPNOTSUPP", "pwrite64:error=ENOSPC:when=%d..%d"}, "pwrite64", 4},
		{"a quota", []string{"fallocate:error=EDQUOT:when=%d..%d"}, "fallocate", 2},
	} {
		for _, n := range moments(seed, dry.trace.count(c.call), c.sample) {
			t.Run(fmt.Sprintf("%s %d", c.name, n), func(t *testing.T) {
				faults := slices.Clone(c.faults)
				last := len(faults) - 1
				faults[last] = fmt.Sprintf(faults[last], n, n+3)
				r := strace(t, large(t.TempDir(), seed), someBytes, faults...)
				if r.facts.Opened {
					require.True(t, r.facts.Ended)
					assert.False(t, r.facts.Stopped, "a full disk is no damage: %q", r.lines)
					for id := range r.plan.Entries {
						assert.Equal(t, acked, r.facts.Of[id].Fate, "entry %d", id)
					}
				}
				for _, line := range r.lines {
					if strings.HasPrefix(line, sayRefused) || strings.HasPrefix(line, sayDenied) {
						refusals++
						assert.True(t, strings.HasSuffix(line, " full"), line)
					}
				}
				r.check(t, i)
			})
		}
	}
	assert.Positive(t, refusals, "no fault met a commit")
}
