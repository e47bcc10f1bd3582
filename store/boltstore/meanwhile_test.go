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
