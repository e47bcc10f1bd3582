package boltstore

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// stall is a store whose writer stands still just before it commits, while it is told to.
type stall struct {
	*Store
	clock    *handClock
	on       atomic.Bool
	at, goOn chan struct{}
}

func newStall(t *testing.T, dir string) *stall {
	x := &stall{clock: newHandClock(), at: make(chan struct{}), goOn: make(chan struct{})}
	x.Store = opened(t, dir, &Options{Clock: x.clock.clock(), hooks: hooks{beforeCommit: func() error {
		if x.on.CompareAndSwap(true, false) {
			close(x.at)
			<-x.goOn
		}
		return nil
	}}})
	return x
}

// settleLater begins to settle and returns when the writer stands with it.
func (x *stall) settleLater(r onefold.Row, state onefold.State) <-chan error {
	x.on.Store(true)
	result := make(chan error, 1)
	go func() { result <- settled(x.Store, r, state) }()
	<-x.at
	return result
}

func once(id string) onefold.Effect {
	e := messageOf(id)
	e.Once = true
	return e
}

func TestSettlementInFlightKeepsTheFeedAlive(t *testing.T) {
	x := newStall(t, t.TempDir())
	require.NoError(t, stored(t, x.Store, entryOf("a", once("1"))))
	require.NoError(t, stored(t, x.Store, entryOf("b", once("2"))))
	f := feedOf(t, x.Store)
	row := nextOf(t, f)
	result := x.settleLater(row, onefold.Tried)
	x.clock.advance(time.Hour) // the disk takes its time
	other := nextOf(t, f)
	close(x.goOn)
	require.NoError(t, <-result)
	for _, r := range []onefold.Row{row, other} {
		require.NoError(t, settled(x.Store, r, onefold.Sent), "the lease runs from the answer")
	}
}

func TestSettlementThatWasOvertakenIsLostAndLeavesThePresentHoldAlone(t *testing.T) {
	for _, state := range []onefold.State{onefold.Tried, onefold.Delayed, onefold.Parked} {
		overtake(t, state, "closed", func(_ *stall, f onefold.Feed) { require.NoError(t, f.Close()) })
		overtake(t, state, "lease over", func(x *stall, _ onefold.Feed) { x.clock.advance(time.Hour) })
	}
}

// overtake lets another feed take a row while its settlement is in flight.
func overtake(t *testing.T, state onefold.State, how string, end func(*stall, onefold.Feed)) {
	ctx := context.Background()
	t.Run(state.String()+", "+how, func(t *testing.T) {
		dir := t.TempDir()
		x := newStall(t, dir)
		require.NoError(t, stored(t, x.Store, entryOf("a", once("1"))))
		first := feedOf(t, x.Store)
		row := nextOf(t, first)
		result := x.settleLater(row, state)
		end(x, first)
		second := feedOf(t, x.Store)
		again := nextOf(t, second)
		close(x.goOn)
		require.ErrorIs(t, <-result, onefold.ErrLost)
		assert.Equal(t, 2, again.Attempt)
		assert.False(t, again.Tried, "the first was told that it may not call")

		require.NoError(t, settled(x.Store, again, onefold.Tried), "the second still holds the row")
		require.ErrorIs(t, settled(x.Store, row, state), onefold.ErrLost)
		require.NoError(t, second.Close())
		third := feedOf(t, x.Store)
		more := nextOf(t, third)
		assert.Equal(t, 3, more.Attempt)
		assert.True(t, more.Tried)
		require.NoError(t, third.Close())
		require.NoError(t, x.Close(ctx))

		s := opened(t, dir, nil)
		row = nextOf(t, feedOf(t, s))
		assert.Equal(t, 4, row.Attempt, "a clean close keeps what memory knew")
		require.NoError(t, settled(s, row, onefold.Sent))
	})
}

func TestOvertakenRowIsFiledRightByAnOrderlyClose(t *testing.T) {
	dir := t.TempDir()
	x := newStall(t, dir)
	require.NoError(t, stored(t, x.Store, entryOf("a", messageOf("1"))))
	first := feedOf(t, x.Store)
	result := x.settleLater(nextOf(t, first), onefold.Parked)
	require.NoError(t, first.Close())
	second := feedOf(t, x.Store)
	nextOf(t, second)
	close(x.goOn)
	require.ErrorIs(t, <-result, onefold.ErrLost)
	require.NoError(t, second.Close())
	nextOf(t, feedOf(t, x.Store)) // read from where the file has it
	require.NoError(t, x.Close(context.Background()))
	s := opened(t, dir, nil)
	assert.Equal(t, 4, nextOf(t, feedOf(t, s)).Attempt, "it waits, and is not parked")
}

func TestSettlementAsSentCountsWhoeverHoldsTheRow(t *testing.T) {
	x := newStall(t, t.TempDir())
	require.NoError(t, stored(t, x.Store, entryOf("a", messageOf("1"))))
	first := feedOf(t, x.Store)
	result := x.settleLater(nextOf(t, first), onefold.Sent)
	require.NoError(t, first.Close())
	again := nextOf(t, feedOf(t, x.Store))
	close(x.goOn)
	require.NoError(t, <-result)
	require.ErrorIs(t, settled(x.Store, again, onefold.Tried), onefold.ErrLost)
	require.NoError(t, settled(x.Store, again, onefold.Sent))
	r, err := x.Lookup(context.Background(), ofID("a"))
	require.NoError(t, err)
	assert.Zero(t, r.Unsettled)
}

func TestLostSettlementOfAWaitingRowLeavesItsNextHolderAlone(t *testing.T) {
	x := newStall(t, t.TempDir())
	require.NoError(t, stored(t, x.Store, entryOf("a", messageOf("1"))))
	first := feedOf(t, x.Store)
	row := nextOf(t, first)
	require.NoError(t, first.Close())
	result := x.settleLater(row, onefold.Delayed) // the writer has seen the row as waiting
	second := feedOf(t, x.Store)
	held := nextOf(t, second)
	close(x.goOn)
	require.ErrorIs(t, <-result, onefold.ErrLost)
	require.NoError(t, settled(x.Store, held, onefold.Sent))
}
