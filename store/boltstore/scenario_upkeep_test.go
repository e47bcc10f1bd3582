package boltstore_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// events keeps what an observer is told of the upkeep.
type events struct {
	mu  sync.Mutex
	all []onefold.UpkeepEvent
}

func (e *events) observer() *onefold.Observer {
	return &onefold.Observer{Upkeep: func(one onefold.UpkeepEvent) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, one)
	}}
}

// of returns the events of one kind of work.
func (e *events) of(work string) (list []onefold.UpkeepEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.all {
		if one.Work == work {
			list = append(list, one)
		}
	}
	return list
}

// watched is a sealer whose upkeep is observed.
func watched(t *testing.T) (*sealer, *events) {
	t.Helper()
	s, e := newSealer(t), &events{}
	o := *s.o
	o.Observer = e.observer()
	s.o = &o
	s.reopen()
	return s, e
}

func TestScenario_B05_WorkThatFailsIsToldAndStopsNoOtherWork(t *testing.T) {
	ctx := context.Background()
	s, seen := watched(t)
	s.fill(250)
	path := s.files(".seg")[0]
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.Index(before, []byte("result 5"))
	require.Positive(t, at)
	overwrite(t, path, int64(at), []byte("X"))
	require.NoError(t, s.Erase(ctx, numbered(90)))
	s.clock.Advance(time.Minute)
	for range 3 {
		s.KeepUp()
		s.clock.Advance(time.Minute)
	}
	failed := seen.of("rewrite")
	require.GreaterOrEqual(t, len(failed), 3, "it is tried again, after a while")
	require.ErrorIs(t, s.Storage().Problem, onefold.ErrDamaged)
	for _, e := range failed {
		require.ErrorIs(t, e.Err, onefold.ErrDamaged)
	}
	assert.Equal(t, 1, s.Storage().Erased, "and shows in the numbers")

	sealed := len(seen.of("seal"))
	s.fill(650)
	assert.GreaterOrEqual(t, len(seen.of("seal")), sealed+4)
	for _, work := range []string{"seal", "drop", "merge"} {
		require.NotEmpty(t, seen.of(work))
		for _, e := range seen.of(work) {
			require.NoError(t, e.Err, work)
		}
	}
	overwrite(t, path, int64(at), []byte("r"))
	s.clock.Advance(time.Minute)
	s.KeepUp()
	assert.NoError(t, s.Storage().Problem)
	assert.Zero(t, s.Storage().Erased, "done as soon as it can be")
	s.holds(0, 90)
	s.holds(91, 650)
}

func TestScenario_B20_WhatIsSealedLeavesTheMainFileInPiecesOfBoundedSize(t *testing.T) {
	var groups atomic.Int64
	s, seen := newSealer(t), &events{}
	s.o = boltstore.WithHooks(
		boltstore.Options{Clock: s.clock.Clock(), SegmentRecords: 100, Observer: seen.observer()},
		boltstore.Hooks{PieceRecords: 30, SweepEvery: time.Hour, AfterCommit: func() error { groups.Add(1); return nil }},
	)
	s.reopen()
	groups.Store(0)
	s.fill(1000)
	s.KeepUp()
	sealed, dropped := 0, 0
	for _, e := range seen.of("seal") {
		sealed += e.Records
	}
	for _, e := range seen.of("drop") {
		dropped += e.Records
	}
	assert.GreaterOrEqual(t, sealed, 900)
	assert.Equal(t, sealed, dropped)
	others := 1000/20 + len(seen.of("seal")) + len(seen.of("merge"))
	assert.GreaterOrEqual(t, int(groups.Load())-others, dropped/30, "one group drops one piece")
}

func TestScenario_B22_OpenReadsWhatIsNotSealedHoweverMuchIs(t *testing.T) {
	ctx := context.Background()
	s, seen := watched(t)
	walked := func(n int) int { // pages of main.db
		s.fill(n)
		s.KeepUp()
		require.NoError(t, s.Close(ctx))
		report, err := boltstore.Check(ctx, s.dir)
		require.NoError(t, err)
		require.NoError(t, report.Err())
		done := len(seen.of("seal")) + len(seen.of("merge")) + len(seen.of("rewrite"))
		s.open()
		assert.Equal(t, done, len(seen.of("seal"))+len(seen.of("merge"))+len(seen.of("rewrite")), "nothing is compacted at Open")
		v := s.Storage()
		assert.EqualValues(t, n, v.Active+v.Frozen+v.Sealed)
		assert.Less(t, v.Active+v.Frozen, uint64(200), "the records that Open reads, of %d", n)
		return report.Files[0].Branches + report.Files[0].Leaves + report.Files[0].Further
	}
	few, many := walked(330), walked(6030)
	assert.LessOrEqual(t, many, few+4, "the list of segment files grows, and nothing else")
}

func TestScenario_D13_ExpiryIsDecidedWhenReadAndCollectedLater(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	for i := range 10 {
		e := entry(numbered(i))
		e.Retain = time.Second
		batch := one(nil, e)
		require.NoError(t, s.Commit(ctx, batch))
		require.NoError(t, batch[0].Err)
	}
	s.clock.Advance(2 * time.Second)
	for i := range 10 { // no sweep has run
		_, err := s.Lookup(ctx, numbered(i))
		require.ErrorIs(t, err, onefold.ErrNotFound)
		require.NoError(t, s.Release(ctx, begin(t, s.Store, numbered(i)), onefold.Failure{}))
	}
	st, err := s.Stats(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 10, st.Records, "they are still there")
	s.clock.Advance(time.Hour)
	commit(t, s.Store, key("another"))
	s.KeepUp()
	st, err = s.Stats(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 1, st.Records)
}

func TestScenario_D15_RecordsFilesAndBytesSettleAtRateTimesRetention(t *testing.T) {
	ctx := context.Background()
	s, seen := watched(t)
	const perStep, step, steps = 40, 10 * time.Minute, 24 * 6
	const alive = perStep * int(time.Hour/step) // rate x retention
	type size struct {
		records      uint64
		files        int
		main, sealed int64
	}
	most := func(all []size) (m size) {
		for _, one := range all {
			m = size{max(m.records, one.records), max(m.files, one.files), max(m.main, one.main), max(m.sealed, one.sealed)}
		}
		return m
	}
	var sizes []size
	for n := range steps {
		s.clock.Advance(step)
		s.fill((n + 1) * perStep)
		stateOf(t, s.Store, n*perStep, (n+1)*perStep, 100, time.Hour)
		s.Sweep()
		s.KeepUp()
		st, err := s.Stats(ctx)
		require.NoError(t, err)
		v := s.Storage()
		files, err := filepath.Glob(filepath.Join(s.dir, "sealed", "*"))
		require.NoError(t, err)
		sizes = append(sizes, size{st.Records, len(files), v.MainBytes, v.SegmentBytes + v.IndexBytes})
		require.LessOrEqual(t, s.scannedState(), alive+perStep)
	}
	early, late := most(sizes[:steps/4]), most(sizes[steps/4:])
	assert.LessOrEqual(t, late.records, uint64(alive+alive/4+2*perStep), "and what is not collected yet")
	assert.LessOrEqual(t, late.records, early.records)
	assert.LessOrEqual(t, late.files, early.files)
	assert.LessOrEqual(t, late.main, early.main)
	assert.LessOrEqual(t, late.sealed, early.sealed)
	assert.Greater(t, len(seen.of("expire")), steps/4)
	s.holds(s.next-alive/2, s.next)
}

// scannedState is how many values of state there are.
func (s *sealer) scannedState() (n int) {
	for _, err := range s.Scan(context.Background(), onefold.Query{What: onefold.WhatState, Table: "t"}) {
		require.NoError(s.t, err)
		n++
	}
	return n
}
