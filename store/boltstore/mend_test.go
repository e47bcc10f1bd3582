package boltstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// handClock is moved by hand.
type handClock struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration
}

func newHandClock() *handClock {
	return &handClock{wall: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), mono: time.Hour}
}

func (c *handClock) clock() onefold.Clock {
	return onefold.Clock{
		Wall: func() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.wall },
		Mono: func() time.Duration { c.mu.Lock(); defer c.mu.Unlock(); return c.mono },
	}
}

func (c *handClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.mono = c.wall.Add(d), c.mono+d
}

// opened opens a store that is closed at the end of the test at the latest.
func opened(t testing.TB, dir string, o *Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func ofID(id string) onefold.Key { return onefold.Key{Scope: "s", ID: id} }

func entryOf(id string, fx ...onefold.Effect) onefold.Entry {
	return onefold.Entry{Key: ofID(id), Outcome: onefold.Succeeded, Retain: time.Hour, Effects: fx}
}

func messageOf(id string) onefold.Effect {
	return onefold.Effect{ID: id, Kind: onefold.KindMessage, Target: "x"}
}

func stored(t testing.TB, s *Store, e onefold.Entry) error {
	t.Helper()
	c := &onefold.Commit{Entry: e}
	require.NoError(t, s.Commit(context.Background(), []*onefold.Commit{c}))
	return c.Err
}

func feedOf(t testing.TB, s *Store) onefold.Feed {
	t.Helper()
	f, err := s.Feed(context.Background(), 30*time.Second)
	require.NoError(t, err)
	return f
}

func nextOf(t testing.TB, f onefold.Feed) onefold.Row {
	t.Helper()
	rows, err := f.Next(context.Background(), 1)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	return rows[0]
}

func settled(s *Store, r onefold.Row, state onefold.State) error {
	return s.Settle(context.Background(), []onefold.Settlement{{Row: r, State: state}})
}

func TestCloseDoesNotTakeBackAFailStop(t *testing.T) {
	for _, closeFirst := range []bool{false, true} {
		dir := t.TempDir()
		s := opened(t, dir, nil)
		fail := func() { s.stop(fmt.Errorf("%w: sync failed", onefold.ErrDamaged)) }
		shut := func() {
			s.refusal.Store(&refusal{err: onefold.ErrClosed, final: true}) // what Close does between its look and the rest
		}
		if closeFirst {
			shut()
			fail()
		} else {
			fail()
			shut()
		}
		_, err := s.Begin(context.Background(), onefold.Request{Key: ofID("a"), Lease: 1, Holder: onefold.Holder{Process: 1}})
		require.ErrorIs(t, err, onefold.ErrDamaged)
		require.ErrorIs(t, s.writeGroup(nil, load{}), onefold.ErrDamaged, "nothing is written any more")
		_ = s.Close(context.Background())
		s = opened(t, dir, nil)
		assert.False(t, s.Info().Clean)
		require.NoError(t, s.Close(context.Background()))
	}
}

func TestClockSetBackBetweenTwoReadingsDoesNotMatter(t *testing.T) {
	base := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var late atomic.Bool
	clock := onefold.Clock{Mono: func() time.Duration { return time.Hour }, Wall: func() time.Time {
		if late.CompareAndSwap(true, false) {
			return base.Add(2 * time.Hour)
		}
		return base
	}}
	s := opened(t, t.TempDir(), &Options{Clock: clock})
	e := messageOf("1")
	e.NotBefore = base.Add(time.Hour)
	require.NoError(t, stored(t, s, entryOf("a", e)))
	late.Store(true)
	_, err := s.Stats(context.Background()) // looks for rows that have become due
	require.NoError(t, err)
}

func TestHandleOfAnotherStoreOrOpenChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s, other := opened(t, dir, nil), opened(t, t.TempDir(), nil)
	for _, s := range []*Store{s, other} {
		require.NoError(t, stored(t, s, entryOf("a", messageOf("1"))))
	}
	old, foreign := nextOf(t, feedOf(t, s)), nextOf(t, feedOf(t, other))
	require.ErrorIs(t, settled(s, foreign, onefold.Sent), onefold.ErrInvalid)
	require.NoError(t, s.Close(context.Background()))
	s = opened(t, dir, nil)
	present := nextOf(t, feedOf(t, s))
	for _, state := range []onefold.State{onefold.Parked, onefold.Sent, onefold.Tried} {
		require.ErrorIs(t, settled(s, old, state), onefold.ErrLost)
	}
	r, err := s.Lookup(context.Background(), ofID("a"))
	require.NoError(t, err)
	assert.Equal(t, 1, r.Unsettled)
	require.NoError(t, settled(s, present, onefold.Sent))
}

func TestTimerEntryWithoutItsRowDoesNotStopTheStore(t *testing.T) {
	ctx := context.Background()
	s := opened(t, t.TempDir(), nil)
	noID := messageOf("")
	noID.Timer = "t"
	require.ErrorIs(t, stored(t, s, entryOf("a", noID)), onefold.ErrInvalid)
	require.ErrorIs(t, stored(t, s, entryOf("a", onefold.Effect{ID: "1", Cancel: true})), onefold.ErrInvalid)

	// Entries that point nowhere, at the row of another effect, and at nothing readable.
	require.NoError(t, stored(t, s, entryOf("bystander", messageOf("2"))))
	at := s.loadHead().position
	require.NoError(t, s.do(&plantOp{newAnswer(), map[string][]byte{
		"nowhere": timerValue(9999), "elsewhere": timerValue(at), "unreadable": {valueV2},
	}}))
	for _, id := range []string{"nowhere", "elsewhere", "unreadable"} {
		timer := messageOf(id)
		timer.Timer = "t"
		require.NoError(t, stored(t, s, entryOf(id, timer)))
	}
	st, err := s.Stats(ctx)
	require.NoError(t, err)
	require.NoError(t, st.Err)
	assert.Equal(t, uint64(4), st.Waiting, "the bystander's row is still there")
}

// plantOp puts entries into the bucket of timers.
type plantOp struct {
	answer
	timers map[string][]byte
}

func (o *plantOp) weight() load   { return load{} }
func (o *plantOp) prepare(*group) {}
func (o *plantOp) publish(*group) {}
func (o *plantOp) apply(g *group) error {
	for id, at := range o.timers {
		if err := g.b.timers.put(timerKey(id), at); err != nil {
			return err
		}
	}
	return nil
}

func TestStaleDeletionOfAHistoryKeepsALaterDurableStart(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	s := opened(t, dir, &Options{MaxGroupEntries: 1, FailureLag: 20 * time.Millisecond})
	n := uint64(0)
	begin := func(id string, durable bool) onefold.Grant {
		n++
		g, err := s.Begin(ctx, onefold.Request{Key: ofID(id), Lease: time.Minute, Holder: onefold.Holder{Process: 1, Attempt: n}, Durable: durable})
		require.NoError(t, err)
		require.Equal(t, onefold.Granted, g.Verdict)
		return g
	}
	b := begin("B", true)
	for _, id := range []string{"A", "C"} {
		require.NoError(t, s.Release(ctx, begin(id, false).Claim, onefold.Failure{Reason: "x", Counted: true}))
	}
	require.NoError(t, s.Release(ctx, b.Claim, onefold.Failure{Reason: "shutdown"}))
	begin("B", true) // counted and answered
	require.Eventually(t, s.changes.empty, 5*time.Second, time.Millisecond)
	require.NoError(t, stored(t, s, entryOf("flush"))) // the group that took the last change is written
	require.NoError(t, s.Crash())
	s = opened(t, dir, nil)
	assert.Equal(t, 1, begin("B", false).History.Starts)
}

func TestQueueThatIsNeverEmptyStaysSmall(t *testing.T) {
	q := queue{wake: make(chan struct{}, 1)}
	for range 10 {
		require.NoError(t, q.add(&weighed{l: load{entries: 1}}))
	}
	for range 100_000 {
		ops, _ := q.take(nil, 1, 1)
		require.Len(t, ops, 1)
		require.NoError(t, q.add(ops[0]))
	}
	assert.Less(t, cap(q.ops), 1000)
}

func TestStatsMayRaceClose(t *testing.T) {
	for range 10 {
		s := opened(t, t.TempDir(), &Options{MmapBytes: 1 << 20})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					if _, err := s.Stats(context.Background()); err != nil {
						return
					}
				}
			})
		}
		require.NoError(t, s.Close(context.Background()))
		wg.Wait()
	}
}

func TestTokensOfOneEpochNeverRunIntoTheNext(t *testing.T) {
	s := opened(t, t.TempDir(), nil)
	s.tokens.Store(1<<epochShift - 2)
	request := onefold.Request{Key: ofID("a"), Lease: time.Minute, Holder: onefold.Holder{Process: 1}}
	g, err := s.Begin(context.Background(), request)
	require.NoError(t, err)
	assert.Equal(t, s.info.Epoch, g.Claim.Token>>epochShift)
	request.Key = ofID("b")
	for range 3 {
		_, err = s.Begin(context.Background(), request)
		require.ErrorIs(t, err, onefold.ErrUnavailable)
		require.ErrorContains(t, err, "open it again")
	}
}

func TestReasonIsNotCutWithinACharacter(t *testing.T) {
	s := opened(t, t.TempDir(), nil)
	request := onefold.Request{Key: ofID("a"), Lease: time.Minute, Holder: onefold.Holder{Process: 1}}
	g, err := s.Begin(context.Background(), request)
	require.NoError(t, err)
	reason := "x" + strings.Repeat("ä", onefold.MaxReasonBytes)
	require.NoError(t, s.Release(context.Background(), g.Claim, onefold.Failure{Counted: true, Reason: reason}))
	g, err = s.Begin(context.Background(), request)
	require.NoError(t, err)
	assert.True(t, utf8.ValidString(g.History.LastReason))
	assert.Len(t, g.History.LastReason, onefold.MaxReasonBytes-1)
}

func TestLongKeysAreShownInFull(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := opened(t, dir, nil)
	long := onefold.Key{Scope: strings.Repeat("s", 300), ID: strings.Repeat("i", 70_000), Gen: 3}
	e := entryOf("")
	e.Key = long
	require.NoError(t, stored(t, s, e))
	require.NoError(t, s.Close(ctx))
	s = opened(t, dir, nil)
	for item, err := range s.Scan(ctx, onefold.Query{What: onefold.WhatRecords, Scope: long.Scope}) {
		require.NoError(t, err)
		assert.Equal(t, long, item.Record.Key)
	}
	require.NoError(t, s.Erase(ctx, long))
	n := 0
	for item, err := range s.Scan(ctx, onefold.Query{What: onefold.WhatRecords}) {
		require.NoError(t, err)
		assert.Zero(t, item.Record.Key)
		assert.True(t, item.Record.Erased)
		n++
	}
	assert.Equal(t, 1, n)
	_, err := s.Lookup(ctx, long)
	require.NoError(t, err)
}

func TestRowsKeepTheWallTimesOfCommitAndParking(t *testing.T) {
	c := newHandClock()
	s := opened(t, t.TempDir(), &Options{Clock: c.clock()})
	began := c.clock().Wall().UnixNano()
	require.NoError(t, stored(t, s, entryOf("a", messageOf("1"))))
	row := nextOf(t, feedOf(t, s))
	look := func(parked bool) (h rowHead) {
		require.NoError(t, s.snap.read(func(b *buckets) (err error) {
			_, v := b.rowsOf(parked).cursor().First()
			h, err = parseRowHead(v)
			return err
		}))
		return h
	}
	assert.Equal(t, began, look(false).wall)
	assert.Equal(t, int64(noTime), look(false).parkedAt)
	c.advance(time.Second)
	require.NoError(t, settled(s, row, onefold.Parked))
	assert.Equal(t, began, look(true).wall)
	assert.Equal(t, began+int64(time.Second), look(true).parkedAt)
	for item, err := range s.Scan(context.Background(), onefold.Query{What: onefold.WhatParked}) {
		require.NoError(t, err)
		require.NoError(t, settled(s, *item.Row, onefold.Delayed))
	}
	assert.Equal(t, int64(noTime), look(false).parkedAt)
}

func TestOldestWaitingIsThatOfRowsNeitherParkedNorDelayed(t *testing.T) {
	c := newHandClock()
	s := opened(t, t.TempDir(), &Options{Clock: c.clock()})
	oldest := func() time.Duration {
		st, err := s.Stats(context.Background())
		require.NoError(t, err)
		return st.OldestWaiting
	}
	later := messageOf("later")
	later.NotBefore = c.clock().Wall().Add(time.Minute)
	require.NoError(t, stored(t, s, entryOf("a", later)))
	c.advance(10 * time.Second)
	assert.Zero(t, oldest())
	ordered := messageOf("ordered")
	ordered.OrderKey = "o"
	require.NoError(t, stored(t, s, entryOf("b", ordered)))
	c.advance(5 * time.Second)
	ordered.ID = "ordered 2"
	require.NoError(t, stored(t, s, entryOf("c", ordered)))
	c.advance(5 * time.Second)
	assert.Equal(t, 10*time.Second, oldest())
	row := nextOf(t, feedOf(t, s))
	assert.Equal(t, 10*time.Second, oldest(), "a row that is out waits as well")
	require.NoError(t, settled(s, row, onefold.Sent))
	assert.Equal(t, 5*time.Second, oldest())
	c.advance(time.Minute)
	assert.Equal(t, 80*time.Second, oldest(), "it has become due")
}
