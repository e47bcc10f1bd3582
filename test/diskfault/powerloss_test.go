package diskfault

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// choices are the ways in which what was not synced can have come to the disk.
func choices(r *rand.Rand) []choice {
	all, none := func() bool { return true }, func() bool { return false }
	some := func() bool { return r.IntN(2) == 0 }
	every, no := func(n int) int { return n }, func(int) int { return 0 }
	few := func(n int) int { return r.IntN(n + 1) }
	return []choice{
		{"nothing", no, none, all},
		{"everything", every, all, all},
		{"names only", every, none, all},
		{"data only", no, all, all},
		{"some writes", few, some, all},
		{"torn writes", few, all, some},
		{"some torn writes", few, some, some},
	}
}

// blackout replays runs of one directory and loses power in the last of them.
type blackout struct {
	t         *testing.T
	random    *rand.Rand
	inspector *inspector
	moments   int // at most; 0: all
	scratch   string

	looked, damaged int
	named           map[string]int
}

// newBlackout looks at some moments of a run, or at more in the long form; 0 means all.
func newBlackout(t *testing.T, seed uint64, some, more int) *blackout {
	if *long {
		some = more
	}
	dir, err := scratch()
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &blackout{t: t, random: random(seed), inspector: newInspector(t), moments: some, scratch: dir, named: map[string]int{}}
}

// look replays the runs in order. keepFailed decides about writes whose sync failed.
func (b *blackout) look(keepFailed func() bool, runs ...*run) {
	b.t.Helper()
	last := runs[len(runs)-1]
	d := newDisk(rootOf(last.plan), keepFailed)
	var known facts
	for n, r := range runs {
		chosen := map[int]bool{}
		if n == len(runs)-1 {
			chosen = b.choose(r.trace)
		}
		for at, s := range r.trace.steps {
			if line, ok := s.call.said(); ok && !s.end {
				_ = known.hear(line)
			}
			require.NoError(b.t, d.take(s))
			if !chosen[at] {
				continue
			}
			for _, c := range choices(b.random) {
				if !b.lose(d, c, last.plan, known, fmt.Sprintf("step %d of %d, %s", at, len(r.trace.steps), c.name)) {
					return
				}
			}
		}
	}
}

// choose picks the moments: all that change anything, or as many as are asked for, half of them right
// before or after a sync.
func (b *blackout) choose(t *trace) map[int]bool {
	var syncs, others []int
	for at, s := range t.steps {
		switch _, said := s.call.said(); {
		case s.call.name == "fdatasync" || s.call.name == "fsync":
			syncs = append(syncs, at)
		case said && !s.end, s.call.name == "pwrite64", strings.HasPrefix(s.call.name, "rename"), strings.HasPrefix(s.call.name, "unlink"):
			others = append(others, at)
		}
	}
	chosen := map[int]bool{}
	for _, list := range [][]int{syncs, others} {
		b.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		if b.moments > 0 {
			list = list[:min(len(list), b.moments/2)]
		}
		for _, at := range list {
			chosen[at] = true
		}
	}
	return chosen
}

// lose makes what the disk may hold and lets the inspector look at it. It returns false when it is enough.
func (b *blackout) lose(d *disk, c choice, p plan, known facts, where string) bool {
	dir := filepath.Join(b.scratch, fmt.Sprint(b.looked))
	require.NoError(b.t, store(d.image(c), d.root, dir))
	b.looked++
	q := p.question(known.clone())
	q.Dir = filepath.Join(dir, filepath.Base(p.Dir))
	q.Again = b.looked%8 == 0
	require.NoError(b.t, os.MkdirAll(dir, 0o700))
	f, err := b.inspector.ask(q)
	switch {
	case err != nil:
		assert.NoError(b.t, err, where)
	case !f.Opened && f.Class == "damaged":
		b.damaged++
		if b.named[f.Class+": "+c.name]++; b.named[f.Class+": "+c.name] <= 3 {
			b.t.Logf("damage is named: %s: %s", where, f.Text)
		}
	case !f.Opened:
		assert.Fail(b.t, "not opened and not named as damage", "%s: %s: %s", where, f.Class, f.Text)
	default:
		assert.Empty(b.t, f.Breaches, where)
	}
	_ = os.RemoveAll(dir)
	return !b.t.Failed()
}

// rootOf is the directory above the store: that the store's own directory is there must be durable, too.
func rootOf(p plan) string { return filepath.Dir(p.Dir) }

func never() bool { return false }

func TestScenario_B01_PowerLostAtAnyMomentTakesNothingThatWasAcked(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	for _, lanes := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d lanes", lanes), func(t *testing.T) {
			p := small(t.TempDir(), seed)
			p.Lanes, p.Entries = lanes, p.Entries/lanes*2
			r := strace(t, p, allBytes)
			b := newBlackout(t, seed, 40, 0)
			b.look(never, r)
			assert.Zero(t, b.damaged, "what was not synced yet must not matter")
			t.Logf("%d images, %d named as damaged %v", b.looked, b.damaged, b.named)
		})
	}
}

func TestPowerLostAfterAKillTakesNothingThatWasAcked(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	dry := strace(t, small(t.TempDir(), seed), someBytes)
	killed := false
	for _, call := range []string{"fdatasync", "fsync", "pwrite64", "renameat", "mkdirat", "write"} {
		for _, n := range moments(seed, dry.trace.count(call), 3) {
			t.Run(fmt.Sprintf("%s %d", call, n), func(t *testing.T) {
				p := small(t.TempDir(), seed)
				first := strace(t, p, allBytes, fmt.Sprintf("%s:signal=KILL:when=%d", call, n))
				p.First, p.Entries = p.Entries*p.Lanes, 10
				second := shot{plan: p, earlier: first.facts, shown: allBytes}.run(t)
				killed = killed || first.trace.killed
				require.True(t, second.facts.Ended)
				b := newBlackout(t, seed, 6, 40)
				b.look(never, first, second)
				assert.Zero(t, b.damaged)
			})
		}
	}
	assert.True(t, killed, "no worker was killed")
}

func TestPowerLostAfterASyncThatFailedTakesNothingThatWasAcked(t *testing.T) {
	t.Parallel()
	seed, met := seedOf(t), false
	dry := strace(t, small(t.TempDir(), seed), someBytes)
	for _, n := range moments(seed, dry.trace.count("fdatasync"), 6) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := strace(t, small(t.TempDir(), seed), allBytes, fmt.Sprintf("fdatasync:error=EIO:when=%d", n))
			met = met || r.trace.injected()
			b := newBlackout(t, seed, 10, 40)
			for _, keep := range []func() bool{never, func() bool { return b.random.IntN(2) == 0 }} {
				b.look(keep, r)
			}
			assert.Zero(t, b.damaged)
		})
	}
	assert.True(t, met, "no sync failed")
}
