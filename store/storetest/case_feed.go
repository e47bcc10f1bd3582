package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func feedCases() []testCase {
	return []testCase{
		{name: "a row is handed out as it was committed", run: rowAsCommitted,
			rule: "Next gives the key and every field of the effect, with attempt 1."},
		{name: "a row that is out is not handed out again", run: notTwice,
			rule: "While a feed holds a row nobody else is given it, however many goroutines ask."},
		{name: "next gives no more than asked for", run: nextMax,
			rule: "Next returns at least one row and at most max."},
		{name: "a commit wakes a waiting next", run: commitWakes,
			rule: "Next that waits returns when a commit brings a row."},
		{name: "a cancelled next loses nothing", run: cancelledNext,
			rule: "Next whose context ends returns its error, and rows that come later are handed out to the next call."},
		{name: "rows of a closed feed come again", run: closedFeed,
			rule: "Closing a feed gives its unsettled rows back at once; they come again with a higher attempt. A closed feed hands nothing out, and closing twice is success."},
		{name: "a second feed is refused", needs: needOneFeed, run: secondFeed,
			rule: "While a feed is open a second one gets ErrBusy; when the first is closed it is given."},
		{name: "a feed that is silent for its lease is over", needs: needClock, run: feedLeaseEnds,
			rule: "When neither Next nor Settle was called for the lease, another feed gets the rows with a higher attempt, and the former feed gets ErrLost."},
		{name: "a lost hold settles nothing", needs: needClock, run: lostHold,
			rule: "Settling a row whose hold has ended returns ErrLost and leaves it with its new holder; other rows of the same call are settled."},
		{name: "asking and settling keep a feed alive", needs: needClock, run: feedStaysAlive,
			rule: "Next and Settle each renew the lease of their feed, so a busy relay keeps its rows for any time."},
		{name: "rows that are committed late are not skipped", run: notSkipped,
			rule: "While many goroutines commit, one reader gets every row exactly once."},
		{name: "a bad feed call is refused", run: badFeedCall,
			rule: "A lease or a number of rows that is not positive is refused with ErrInvalid."},
	}
}

func rowAsCommitted(e *env) {
	k := key("a")
	want := onefold.Effect{
		ID: k.EffectID(0), Kind: onefold.KindMessage, Conn: "account-b", Target: "invoices.create",
		Header:  onefold.Header{"Trace": {"one", "two"}, "trace": {""}},
		Payload: []byte("\x00\xffbytes"), OrderKey: "customer 7",
	}
	if !e.store.Info().Ordered {
		want.OrderKey = ""
	}
	e.done(entry(k, want))
	row := e.handsOutOne(e.feed(), k.EffectID(0))
	assert.Equal(e, k, row.Key)
	assert.Equal(e, want, row.Effect)
	assert.Equal(e, 1, row.Attempt)
	assert.False(e, row.Tried)
}

func notTwice(e *env) {
	const n = 60
	e.doneWith("a", n)
	f := e.feed()
	ctx, stop := context.WithCancel(e.ctx)
	defer stop()
	var mu sync.Mutex
	times := map[string]int{}
	together(3, func(int) {
		for {
			rows, err := f.Next(ctx, 7)
			if err != nil {
				assert.ErrorIs(e, err, context.Canceled)
				return
			}
			mu.Lock()
			for _, r := range rows {
				times[r.Effect.ID]++
			}
			if len(times) == n {
				stop()
			}
			mu.Unlock()
		}
	})
	for id, count := range times {
		assert.Equal(e, 1, count, id)
	}
	e.handsOut(f)
}

func nextMax(e *env) {
	e.doneWith("a", 5)
	f := e.feed()
	seen := 0
	for seen < 5 {
		rows, err := f.Next(e.ctx, 2)
		require.NoError(e, err)
		require.NotEmpty(e, rows)
		require.LessOrEqual(e, len(rows), 2)
		seen += len(rows)
	}
	assert.Equal(e, 5, seen)
}

// next is a call of Next in a goroutine.
type next struct {
	rows []onefold.Row
	err  error
}

// nextLater calls Next in a goroutine; the result comes when it returns.
func (e *env) nextLater(ctx context.Context, f onefold.Feed) <-chan next {
	result := make(chan next, 1)
	go func() {
		rows, err := f.Next(ctx, 10)
		result <- next{rows, err}
	}()
	return result
}

func commitWakes(e *env) {
	f := e.feed()
	for i := range 10 {
		result := e.nextLater(e.ctx, f)
		k := e.doneWith(name("a", i), 1)
		got := <-result
		require.NoError(e, got.err)
		require.Len(e, got.rows, 1)
		assert.Equal(e, k.EffectID(0), got.rows[0].Effect.ID)
	}
}

func cancelledNext(e *env) {
	f := e.feed()
	ctx, cancel := context.WithCancel(e.ctx)
	result := e.nextLater(ctx, f)
	cancel()
	require.ErrorIs(e, (<-result).err, context.Canceled)
	k := e.doneWith("a", 1)
	assert.Equal(e, 1, e.handsOutOne(f, k.EffectID(0)).Attempt)
}

func closedFeed(e *env) {
	k := e.doneWith("a", 2)
	f := e.feed()
	rows := e.handsOut(f, k.EffectID(0), k.EffectID(1))
	e.settle(onefold.Sent, rows[1])
	require.NoError(e, f.Close())
	require.NoError(e, f.Close())
	_, err := f.Next(e.ctx, 10)
	require.Error(e, err, "a closed feed")
	require.NotErrorIs(e, err, context.DeadlineExceeded, "a closed feed does not wait")
	assert.Equal(e, 2, e.handsOutOne(e.feed(), k.EffectID(0)).Attempt)
}

func secondFeed(e *env) {
	f := e.feed()
	_, err := e.store.Feed(e.ctx, lease)
	require.ErrorIs(e, err, onefold.ErrBusy)
	require.NoError(e, f.Close())
	e.feed()
}

func feedLeaseEnds(e *env) {
	k := e.doneWith("a", 1)
	former := e.feed()
	e.handsOut(former, k.EffectID(0))
	e.clock.Advance(lease + time.Second)
	present := e.feed()
	assert.Equal(e, 2, e.handsOutOne(present, k.EffectID(0)).Attempt)
	_, err := former.Next(e.ctx, 10)
	require.ErrorIs(e, err, onefold.ErrLost)
	require.NoError(e, former.Close())
	e.handsOut(present)
}

func lostHold(e *env) {
	k := e.doneWith("a", 2)
	former := e.feed()
	old := e.handsOut(former, k.EffectID(0), k.EffectID(1))
	e.clock.Advance(lease + time.Second)
	present := e.feed()
	rows := e.handsOut(present, k.EffectID(0), k.EffectID(1))
	for _, state := range allStates {
		err := e.store.Settle(e.ctx, []onefold.Settlement{{Row: old[0], State: state}})
		require.ErrorIs(e, err, onefold.ErrLost, state.String())
	}
	err := e.store.Settle(e.ctx, []onefold.Settlement{
		{Row: old[0], State: onefold.Sent}, {Row: rows[1], State: onefold.Sent},
	})
	require.ErrorIs(e, err, onefold.ErrLost)
	assert.Equal(e, 1, e.record(k).Unsettled)
	require.NoError(e, present.Close())
	last := e.feed()
	row := e.handsOutOne(last, k.EffectID(0))
	assert.Equal(e, 3, row.Attempt)
	e.settle(onefold.Sent, row)
}

func feedStaysAlive(e *env) {
	long := e.doneWith("long", 1)
	f := e.feed()
	held := e.handsOutOne(f, long.EffectID(0))
	for i := range 6 {
		e.clock.Advance(lease * 3 / 4)
		k := e.doneWith(name("a", i), 1)
		rows, err := f.Next(e.ctx, 10)
		require.NoError(e, err, "Next renews the lease")
		require.Len(e, rows, 1)
		require.Equal(e, k.EffectID(0), rows[0].Effect.ID, "the row that is out is not taken for a failed one")
		e.clock.Advance(lease * 3 / 4)
		e.settle(onefold.Sent, rows...)
	}
	e.settle(onefold.Sent, held)
	assert.Zero(e, e.record(long).Unsettled)
	e.handsOut(f)
}

func notSkipped(e *env) {
	const writers, each = 4, 15
	f := e.feed()
	times := map[string]int{}
	together(writers+1, func(w int) {
		if w == writers {
			for len(times) < writers*each {
				rows, err := f.Next(e.ctx, 10)
				if !assert.NoError(e, err) {
					return
				}
				for _, r := range rows {
					times[r.Effect.ID]++
				}
				assert.NoError(e, e.store.Settle(e.ctx, sentAll(rows)))
			}
			return
		}
		for i := range each {
			k := key(name(name("w", w), i))
			one := &onefold.Commit{Entry: entry(k, message(k, 0))}
			assert.NoError(e, e.store.Commit(e.ctx, []*onefold.Commit{one}))
			assert.NoError(e, one.Err)
		}
	})
	for id, count := range times {
		assert.Equal(e, 1, count, id)
	}
	e.handsOut(f)
}

func badFeedCall(e *env) {
	for _, d := range []time.Duration{0, -1} {
		_, err := e.store.Feed(e.ctx, d)
		assert.ErrorIs(e, err, onefold.ErrInvalid, "lease %v", d)
	}
	f := e.feed()
	for _, n := range []int{0, -1} {
		_, err := f.Next(e.ctx, n)
		assert.ErrorIs(e, err, onefold.ErrInvalid, "max %d", n)
	}
}
