package consumer

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
)

func TestAFifoHandsOutEverythingInOrderAndThenTellsItsReadersOfTheEnd(t *testing.T) {
	q := newFifo[int](2)
	for i := range 5000 {
		assert.True(t, q.push(i))
		if i%3 == 0 {
			got, ok := q.pop()
			assert.True(t, ok)
			assert.Equal(t, i/3, got)
		}
	}
	rest := q.popAll(nil)
	assert.Len(t, rest, 5000-1667)
	assert.Equal(t, 1667, rest[0])
	q.push(1)
	q.close()
	assert.True(t, q.push(2), "a reader may still be busy")
	assert.Equal(t, []int{1, 2}, q.popAll(nil))
	assert.Empty(t, q.popAll(nil))
	assert.True(t, q.push(3), "the other reader will take it")
	got, ok := q.pop()
	assert.True(t, ok)
	assert.Equal(t, 3, got)
	_, ok = q.pop()
	assert.False(t, ok)
	assert.False(t, q.push(4), "nobody would take it")
}

func TestAFifoWakesBlockedReaders(t *testing.T) {
	q := newFifo[int](4)
	var all sync.WaitGroup
	got := make(chan int, 1000)
	for range 4 {
		all.Go(func() {
			for {
				i, ok := q.pop()
				if !ok {
					return
				}
				got <- i
			}
		})
	}
	for i := range 1000 {
		q.push(i)
	}
	q.close()
	all.Wait()
	assert.Len(t, got, 1000)
}

func arrive(id string, sequence uint64, sum byte) *delivery {
	return &delivery{key: onefold.Key{ID: id}, fingerprint: onefold.Fingerprint{Version: 1, Sum: [16]byte{sum}},
		msg: onefold.Message{Sequence: sequence, Time: time.Unix(int64(sequence), 0)}}
}

func TestTheRegistryTellsCopiesRepeatsAndConflictsApart(t *testing.T) {
	r := newRegistry()
	add := func(d *delivery) arrival { a, _ := r.add(d); return a }
	first := arrive("a", 1, 1)
	assert.Equal(t, arrivalNew, add(first))
	assert.Equal(t, arrivalRepeats, add(arrive("a", 1, 1)))
	second := arrive("a", 2, 1)
	assert.Equal(t, arrivalFollows, add(second))
	assert.Equal(t, arrivalRepeats, add(arrive("a", 2, 1)), "also of one that waits")
	a, held := r.add(arrive("a", 3, 9))
	assert.Equal(t, arrivalConflicts, a)
	assert.Equal(t, first.fingerprint, held)
	reused := arrive("a", 1, 1)
	reused.msg.Time = time.Unix(99, 0)
	assert.Equal(t, arrivalFollows, add(reused), "a position that was used again is another message")
	assert.Equal(t, arrivalNew, add(arrive("b", 4, 1)))
	assert.Equal(t, sample{Sequence: 4, Time: time.Unix(4, 0).UnixNano()}, r.highest())
	assert.Len(t, r.snapshot(nil), 2)

	assert.Equal(t, []*delivery{second, reused}, r.remove(first))
	assert.Empty(t, r.remove(first), "once")
	assert.Equal(t, arrivalNew, add(second))
	assert.Empty(t, r.remove(first), "never the successor")
	assert.Equal(t, 2, r.size())
}

func TestTheRegistryBoundsTheCopiesThatWait(t *testing.T) {
	r := newRegistry()
	for i := range uint64(maxFollowers + 1) {
		r.add(arrive("a", i+1, 1))
	}
	a, _ := r.add(arrive("a", 9999, 1))
	assert.Equal(t, arrivalCrowds, a)
}

func TestAStageIsTakenByOne(t *testing.T) {
	var d delivery
	assert.True(t, d.move(stageQueued, stageClaiming))
	assert.False(t, d.move(stageQueued, stageEnded))
	var won sync.WaitGroup
	wins := make(chan stage, 2)
	for _, to := range []stage{stageTaken, stageEnded} {
		won.Go(func() {
			if d.move(stageClaiming, to) {
				wins <- to
			}
		})
	}
	won.Wait()
	assert.Len(t, wins, 1)
	assert.Equal(t, d.at(), <-wins)
}
