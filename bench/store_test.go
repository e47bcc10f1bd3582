package main

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

func TestKeysHave32BytesAndDiffer(t *testing.T) {
	seen := map[string]bool{}
	for n := range uint64(1000) {
		for _, k := range []string{recordKey(n).ID, foreignKey(n).ID} {
			assert.Len(t, k, 32)
			assert.False(t, seen[k], k)
			seen[k] = true
		}
		assert.Equal(t, recordKey(n), recordKey(n))
	}
}

func TestAStoreIsCalmOnceNothingHasMovedForLongEnough(t *testing.T) {
	idle := boltstore.Storage{Sealed: 10, Segments: 1, Tiers: []int{1}}
	frozen, merged, grown := idle, idle, idle
	frozen.Frozen = 5
	merged.Tiers = []int{0, 1}
	grown.Active = 7
	start := time.Unix(1000, 0)
	for name, tt := range map[string]struct {
		middle boltstore.Storage
		used   time.Duration // in the middle
		since  time.Duration
	}{
		"idle":                  {idle, 0, 0},
		"a frozen segment":      {frozen, 0, calmAfter / 2},
		"a merge":               {merged, 0, calmAfter},
		"work on the processor": {idle, calmAfter / 4, calmAfter / 2},
		"active records alone":  {grown, 0, 0},
	} {
		var c calm
		assert.False(t, c.look(start, time.Second, idle), name)
		assert.False(t, c.look(start.Add(calmAfter/2), time.Second+tt.used, tt.middle), name)
		assert.Equal(t, tt.since == 0, c.look(start.Add(calmAfter), time.Second+tt.used, idle), name)
		assert.Equal(t, start.Add(tt.since), c.since, name)
		assert.True(t, c.look(start.Add(2*calmAfter), time.Second+tt.used, idle), name)
	}
}

func TestBackgroundWorkIsCountedBetweenTwoMoments(t *testing.T) {
	var w works
	tell := w.observer().Upkeep
	tell(onefold.UpkeepEvent{Work: "seal"})
	before := w.now()
	for _, work := range []string{"seal", "drop", "merge", "expire", "seal"} {
		tell(onefold.UpkeepEvent{Work: work})
	}
	tell(onefold.UpkeepEvent{Work: "seal", Err: io.ErrUnexpectedEOF})
	var c counts
	c.add(before, w.now())
	assert.Equal(t, counts{sealed: 2, merged: 1, expired: 1}, c)
}

func TestAMeterKeepsTheRateOfEachWindowAndSaysEachStep(t *testing.T) {
	var said []int
	m := &meter{window: 10, step: 20, say: func(total int) { said = append(said, total) }}
	m.begin()
	for range 12 {
		m.add(4)
	}
	assert.Len(t, m.windows(), 4)
	assert.Equal(t, []int{20, 40}, said)
	m.reset()
	assert.Empty(t, m.windows())
}

func TestAMovedClockRunsOnFromWhereItIsPut(t *testing.T) {
	var c movedClock
	clock := c.clock()
	before := clock.Mono()
	c.ahead.Add(int64(time.Hour))
	assert.GreaterOrEqual(t, clock.Mono()-before, time.Hour)
}
