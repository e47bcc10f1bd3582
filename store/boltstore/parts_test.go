package boltstore

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func TestMappedSizesAreThoseOfBbolt(t *testing.T) {
	var m mapping
	for size, want := range map[int64]int64{
		1: 32 << 10, 32 << 10: 32 << 10, 32<<10 + 1: 64 << 10, 5 << 20: 8 << 20, 1 << 30: 1 << 30, 1<<30 + 1: 2 << 30, 3 << 30: 3 << 30,
	} {
		assert.Equal(t, want, m.round(size), size)
	}
}

func TestBoundGrowsWithWhatAGroupCanMove(t *testing.T) {
	g := &group{load: load{grows: true, puts: 10, bytes: 1000, largest: 100}}
	m := mapping{pageSize: 4096}
	small := m.bound(g, 1<<30)
	assert.Equal(t, int64(2000+10*pagesPerPut*4096+bytesPerGroup), small)
	g.load.largest = 1 << 20
	assert.Equal(t, small+(10+appendsTo)*valuesPerPut<<20, m.bound(g, 1<<30))
	m.wrote(g)
	g.load.largest = 0
	assert.Equal(t, int64(2000+bytesPerGroup+2*5+5), m.bound(g, 5), "the largest value is remembered; nothing moves more than the file holds")
}

func TestIndexHoldsOnePositionOfEachKey(t *testing.T) {
	p := newPart(0)
	assert.True(t, p.enter(1, 10, 0))
	assert.True(t, p.enter(1, 11, 0), "another key of the same hash")
	assert.True(t, p.enter(1, 12, 0))
	assert.False(t, p.enter(1, 13, 11), "11 had expired")
	assert.False(t, p.enter(1, 14, 10))
	assert.Equal(t, []uint64{14, 13, 12}, p.candidates(nil, 1))
	assert.Empty(t, p.candidates(nil, 2))
	assert.Equal(t, 3, p.size())
	assert.True(t, p.leave(1, 13))
	assert.False(t, p.leave(1, 13))
	assert.Equal(t, []uint64{14, 12}, p.candidates(nil, 1))
}

func TestAStripeLooksIntoNewerSegmentsFirst(t *testing.T) {
	st := stripe{active: newPart(0)}
	st.active.enter(1, 10, 0)
	st.freeze()
	st.active.enter(1, 20, 0)
	st.freeze()
	assert.True(t, st.active.enter(1, 30, 20), "what is frozen is not replaced")
	assert.Equal(t, []uint64{30, 20, 10}, st.candidates(nil, 1, 0))
	assert.Equal(t, []uint64{30, 20}, st.candidates(nil, 1, 1), "those since the second")
	assert.Equal(t, 1, st.thaw())
	assert.Equal(t, []uint64{30, 20}, st.candidates(nil, 1, 0))
	assert.Equal(t, 1, st.thaw())
	assert.Equal(t, []uint64{30}, st.candidates(nil, 1, 0))
}

func TestClaimsOfOneHashAreKeptApart(t *testing.T) {
	st := stripe{claims: map[uint64]*claim{}}
	keys := []onefold.Key{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	all := make([]*claim, len(keys))
	for i, k := range keys {
		all[i] = &claim{hash: 7, public: onefold.Claim{Key: k}}
		st.add(all[i])
	}
	for _, i := range []int{1, 2, 0} {
		require.Same(t, all[i], st.claim(7, &keys[i]))
		st.drop(all[i])
		assert.Nil(t, st.claim(7, &keys[i]))
		assert.Equal(t, gone, all[i].state)
	}
	assert.Empty(t, st.claims)
}

// weighed is an op of a given weight.
type weighed struct {
	startOp
	l load
}

func (w *weighed) weight() load { return w.l }

func TestQueueGivesWhatWaitsWithinItsLimits(t *testing.T) {
	q := queue{wake: make(chan struct{}, 1)}
	for _, l := range []load{{entries: 3, bytes: 10}, {entries: 3, bytes: 10}, {entries: 1, bytes: 500}, {entries: 1, bytes: 1}} {
		require.NoError(t, q.add(&weighed{l: l}))
	}
	ops, sum := q.take(nil, 5, 100)
	assert.Len(t, ops, 1, "the second would be too many entries")
	assert.Equal(t, 3, sum.entries)
	ops, _ = q.take(nil, 5, 100)
	assert.Len(t, ops, 1, "the third would be too many bytes")
	ops, _ = q.take(nil, 5, 100)
	assert.Len(t, ops, 1, "one op is taken whatever it weighs")
	q.close()
	assert.False(t, q.drained())
	ops, _ = q.take(nil, 5, 100)
	assert.Len(t, ops, 1)
	assert.True(t, q.drained())
	assert.ErrorIs(t, q.add(&weighed{}), onefold.ErrClosed)
}

func TestOptionsHaveTheirDocumentedDefaults(t *testing.T) {
	o, err := (*Options)(nil).checked()
	require.NoError(t, err)
	assert.Equal(t, DefaultLockWait, o.LockWait)
	assert.Equal(t, DefaultMaxEntry, o.MaxEntry)
	assert.Equal(t, DefaultFailureLag, o.FailureLag)
	assert.Equal(t, DefaultMaxGroupEntries, o.MaxGroupEntries)
	assert.Equal(t, DefaultMaxGroupBytes, o.MaxGroupBytes)
	assert.Equal(t, DefaultMmapBytes, o.MmapBytes)
}
