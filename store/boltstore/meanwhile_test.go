package boltstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/storetest"
)

// TestSegmentsAreSealedWhileIndexesAreMerged lets four segments wait, three of which make a merge due: the fourth does
// not wait for the end of the merge.
func TestSegmentsAreSealedWhileIndexesAreMerged(t *testing.T) {
	ctx := context.Background()
	var mu sync.Mutex
	var order []string
	o := &Options{SegmentRecords: 100, Observer: &onefold.Observer{Upkeep: func(e onefold.UpkeepEvent) {
		mu.Lock()
		defer mu.Unlock()
		assert.NoError(t, e.Err)
		order = append(order, e.Work)
	}}, hooks: hooks{tierFactor: 3, sweepEvery: time.Hour}}
	s, err := Open(t.TempDir(), o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close(ctx)) }()
	s.upkeepTurn <- struct{}{} // nothing is done meanwhile
	for n := range 4 {
		batch := make([]*onefold.Commit, 100)
		for i := range batch {
			k := onefold.Key{Scope: "s", ID: fmt.Sprint(n, i)}
			batch[i] = &onefold.Commit{Entry: onefold.Entry{Key: k, Outcome: onefold.Succeeded, Retain: time.Hour}}
		}
		require.NoError(t, s.Commit(ctx, batch))
		require.Eventually(t, func() bool { return s.pieces.state().frozen == n+1 }, time.Minute, time.Millisecond)
	}
	<-s.upkeepTurn
	s.keepUpNow()
	mu.Lock()
	defer mu.Unlock()
	order = slices.DeleteFunc(order, func(work string) bool { return work == workDrop })
	assert.Equal(t, []string{workSeal, workSeal, workSeal, workSeal, workMerge}, order)
}

func TestADropThatHasFailedIsNotTriedAgainWithEachSeal(t *testing.T) {
	ctx := context.Background()
	o := &Options{SegmentRecords: 10, hooks: hooks{sweepEvery: time.Hour, tierFactor: 100}}
	s, err := Open(t.TempDir(), o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close(ctx)) }()
	s.upkeepTurn <- struct{}{}
	s.patience.note(workDrop, onefold.ErrFull, s.clock.Mono()) // it has failed
	for n := range 10 {
		require.NoError(t, stored(t, s, entryOf(fmt.Sprint(n))))
	}
	require.Eventually(t, func() bool { return s.pieces.state().frozen == 1 }, time.Minute, time.Millisecond)
	some, err := s.try(kindOfWork{workSeal, s.sealOne})
	require.True(t, some)
	require.NoError(t, err)
	<-s.upkeepTurn
	require.Nil(t, s.drop, "a drop is under way although it is not due for %v", firstWait)
}

// The next store removes the file that a look-up of the one before, for which Close does not wait, is about to read.
func TestALookUpThatCloseHasOvertakenStillReadsItsFile(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	clock := goldenClock()
	o := &Options{SegmentRecords: 1, Clock: clock}
	s := opened(t, dir, o)
	require.NoError(t, stored(t, s, entryOf("a")))
	require.NoError(t, stored(t, s, entryOf("b")))
	s.keepUpNow()
	k := ofID("a")
	canon := canonOf(&k)
	shelf := s.shelves.use() // as findSealed, before it reads
	at, err := shelf.indexes[len(shelf.indexes)-1].Find(nil, s.hash(canon))
	require.NoError(t, err)
	require.NotEmpty(t, at)
	require.NoError(t, s.Close(ctx))
	next := opened(t, dir, o)
	for _, f := range next.shelves.present.Load().segments {
		f.head.Expires = 0 // as if time had passed
	}
	next.keepUpNow()
	_, err = s.readSealed(shelf, at[0], s.hash(canon), canon)
	require.NoError(t, err)
	s.shelves.done(shelf)
}

// TestPiecesAreDroppedBeforeTheirSegmentEnds looks at the pieces of the journal whenever a segment has ended: what is erased
// of them is marked in their segment.
func TestPiecesAreDroppedBeforeTheirSegmentEnds(t *testing.T) {
	ctx := context.Background()
	clock := storetest.NewClock()
	var s *Store
	expired := 0
	o := &Options{Clock: clock.Clock(), SegmentRecords: 100, Observer: &onefold.Observer{Upkeep: func(e onefold.UpkeepEvent) {
		if e.Work != workExpire {
			return
		}
		expired++
		if p, some := s.pieces.leftover(); some {
			assert.NotNil(t, s.shelves.present.Load().segment(p.first), "the segment of a piece has ended")
		}
	}}, hooks: hooks{pieceRecords: 30, tierFactor: 3, sweepEvery: time.Hour}}
	s, err := Open(t.TempDir(), o)
	require.NoError(t, err)
	for n := range 330 {
		e := entryOf(fmt.Sprint(n))
		e.Retain = time.Hour
		require.NoError(t, stored(t, s, e))
		if n%110 == 109 {
			clock.Advance(2 * time.Hour)
			k := ofID(fmt.Sprint(n - 1))
			require.NoError(t, s.Erase(ctx, k))
			s.keepUpNow()
		}
	}
	require.NoError(t, s.Close(ctx))
	assert.Positive(t, expired)
}
