package boltstore_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The flags with which a failing history is run again, or more histories are searched.
var (
	metamorphicSeed = flag.Uint64("seed", 0, "metamorphic test: first seed (0: a fixed list)")
	metamorphicRuns = flag.Int("runs", 1, "metamorphic test: how many seeds, from -seed on")
	metamorphicOps  = flag.Int("ops", 400, "metamorphic test: operations of each history")
)

// step is one operation of a history. What it does is drawn from its own seed and from what the world holds
// by then, so that a history with some steps left out is a history as well.
type step struct {
	move int
	seed uint64
}

// move is a kind of step; weight says how often it is drawn.
type move struct {
	name   string
	weight int
	do     func(w *world, r *rand.Rand)
}

// moves is what can happen to a store.
func moves() []move {
	return []move{
		{"begin", 22, (*world).begin}, {"renew", 4, (*world).renew}, {"release", 9, (*world).release},
		{"commit", 26, (*world).commit}, {"repeat a commit", 5, (*world).repeat}, {"commit many", 3, (*world).commitMany},
		{"read", 5, (*world).read}, {"lookup", 4, (*world).lookup}, {"wait", 2, (*world).wait}, {"erase", 4, (*world).erase},
		{"scan", 6, (*world).scan}, {"stats", 3, (*world).stats},
		{"feed", 6, (*world).feed}, {"next", 14, (*world).next}, {"settle", 14, (*world).settle}, {"close the feed", 1, (*world).closeFeed},
		{"advance", 9, (*world).advance}, {"step the wall clock", 1, (*world).stepWall}, {"sweep", 1, (*world).sweep},
		{"audit", 1, (*world).audit}, {"reopen", 2, (*world).reopen}, {"crash", 2, (*world).crash}, {"crash copy", 1, (*world).crashCopy},
		{"crash under way", 1, (*world).crashUnderWay}, {"failed write", 1, (*world).failWrite}, {"failed sync", 1, (*world).failSync},
	}
}

// history draws n steps.
func history(seed uint64, n int) []step {
	r, total := rand.New(rand.NewPCG(seed, 1)), 0
	for _, m := range moves() {
		total += m.weight
	}
	steps := make([]step, n)
	for i := range steps {
		at := r.IntN(total)
		for k, m := range moves() {
			if at -= m.weight; at < 0 {
				steps[i] = step{k, r.Uint64()}
				break
			}
		}
	}
	return steps
}

// play runs a history on both stores. It returns what happened and the first disagreement.
func play(root string, seed uint64, steps []step) (story []string, err error) {
	w := newWorld(root, seed)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		w.end()
		story = w.story
	}()
	for i, s := range steps {
		m := moves()[s.move]
		w.note("%4d %s:", i, m.name)
		m.do(w, rand.New(rand.NewPCG(s.seed, 2)))
		if w.err != nil {
			return w.story, w.err
		}
	}
	w.audit(nil)
	return w.story, w.err
}

// shrink leaves steps out for as long as the history still fails: halves, then quarters, and so on down to
// single steps. tries bounds how often it may ask.
func shrink(steps []step, tries int, fails func([]step) bool) []step {
	for size := max(len(steps)/2, 1); ; size = max(size/2, 1) {
		shorter := false
		for at := 0; at < len(steps) && tries > 0; {
			end := min(at+size, len(steps))
			without := append(append(make([]step, 0, len(steps)), steps[:at]...), steps[end:]...)
			if tries--; fails(without) {
				steps, shorter = without, true
				continue
			}
			at = end
		}
		if tries <= 0 || size == 1 && !shorter {
			return steps
		}
	}
}

// seeds is what one run of the test goes through.
func seeds() []uint64 {
	if *metamorphicSeed == 0 && *metamorphicRuns == 1 {
		return []uint64{1, 2, 3, 4}
	}
	all := make([]uint64, *metamorphicRuns)
	for i := range all {
		all[i] = *metamorphicSeed + uint64(i)
	}
	return all
}

// memoryDir is a directory in memory, where there is one: these tests are about what is written, not about when
// it is on a disk, and take a tenth of the time there.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "onefold-test") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestMetamorphicHistoriesEndAlikeInBothStores(t *testing.T) {
	for _, seed := range seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			root := memoryDir(t)
			steps := history(seed, *metamorphicOps)
			story, err := play(root, seed, steps)
			if os.Getenv("ONEFOLD_TEST_STORY") != "" {
				t.Log(strings.Join(story, "\n"))
			}
			if err == nil {
				return
			}
			t.Logf("looking for a shorter history than this one: %v", err)
			small := shrink(steps, 150, func(s []step) bool {
				_, err := play(root, seed, s)
				return err != nil
			})
			story, again := play(root, seed, small)
			t.Errorf("the stores disagree: %v\n\nshortest history found, %d steps: %v\n%s\n\nrun it again: go test ./store/boltstore -run TestMetamorphic -seed %d -ops %d",
				err, len(small), again, strings.Join(story, "\n"), seed, *metamorphicOps)
		})
	}
}

func TestShrinkingKeepsTheStepsThatMatter(t *testing.T) {
	steps := history(1, 200)
	needed := []step{steps[17], steps[18], steps[150]}
	has := func(all []step, one step) bool {
		for _, s := range all {
			if s == one {
				return true
			}
		}
		return false
	}
	small := shrink(steps, 10_000, func(s []step) bool {
		return has(s, needed[0]) && has(s, needed[1]) && has(s, needed[2])
	})
	assert.Equal(t, needed, small)
	assert.Equal(t, steps, shrink(steps, 0, func([]step) bool { return true }), "no tries, no change")
}

var errHook = errors.New("the disk does not answer")
