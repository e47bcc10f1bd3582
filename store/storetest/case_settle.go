package storetest

import (
	"errors"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func settleCases() []testCase {
	return []testCase{
		{name: "a sent row is over", run: sentIsOver,
			rule: "A row that is settled as sent or discarded never comes again, and its record counts it no more."},
		{name: "a final state never goes back", run: finalStays,
			rule: "Settling a sent or discarded row in any other way brings it back never."},
		{name: "settling twice is success", run: settleTwice,
			rule: "Repeating a settlement is success and changes nothing, for every state."},
		{name: "a delayed row comes at its time", needs: needClock, run: delayedComes,
			rule: "A delayed row is not handed out before its time, holds up no other row, and then comes again with a higher attempt."},
		{name: "a wall clock set back strands no delayed row", needs: needClock, run: delayedWallBack,
			rule: "A delayed row comes when the delay has passed, even if the wall clock was set back meanwhile."},
		{name: "delayed to no time is due at once", run: delayedAtOnce,
			rule: "A row that is delayed without a time comes again at once."},
		{name: "attempts grow, uncounted ones do not", run: attemptsGrow,
			rule: "Each handing out adds one to the attempt of a row, and a settlement that is marked uncounted takes it back."},
		{name: "a parked row waits for a person", run: parkedWaits,
			rule: "A parked row is not handed out, is shown by Scan with its reason and counts as unsettled, until a person resumes it; then it comes again."},
		{name: "a parked row can be given up", run: parkedDiscarded,
			rule: "A person can discard a parked row, and its record counts it no more."},
		{name: "resuming a parked row twice is harmless", run: parkedTwice,
			rule: "When two people resume or discard one parked row from the same list, the second changes nothing."},
		{name: "a tried row says so when it comes again", run: triedShows,
			rule: "A row that is settled as tried stays out, and if its outcome is never settled it comes again marked as tried."},
		{name: "a batch of settlements has an outcome each", run: mixedSettle,
			rule: "One Settle may record different states for different rows."},
		{name: "a bad settlement is refused", run: badSettle,
			rule: "A settlement of no row or with an unknown state is refused with ErrInvalid and changes nothing."},
		{name: "a row of another store settles nothing", run: foreignRow,
			rule: "Settling with a row of other data is refused with ErrInvalid or ErrLost for every state, and changes nothing in either store."},
	}
}

func sentIsOver(e *env) {
	k := e.doneWith("a", 2)
	f := e.feed()
	rows := e.handsOut(f, k.EffectID(0), k.EffectID(1))
	e.settle(onefold.Sent, rows[0])
	assert.Equal(e, 1, e.record(k).Unsettled)
	e.settle(onefold.Discarded, rows[1])
	assert.Zero(e, e.record(k).Unsettled)
	require.NoError(e, f.Close())
	e.handsOut(e.feed())
}

func finalStays(e *env) {
	k := e.doneWith("a", 2)
	f := e.feed()
	rows := e.handsOut(f, k.EffectID(0), k.EffectID(1))
	e.settle(onefold.Sent, rows[0])
	e.settle(onefold.Discarded, rows[1])
	for _, row := range rows {
		e.settle(onefold.Sent, row)
		e.settle(onefold.Discarded, row)
		for _, state := range []onefold.State{onefold.Delayed, onefold.Parked, onefold.Tried} {
			err := e.store.Settle(e.ctx, []onefold.Settlement{{Row: row, State: state}})
			if !errors.Is(err, onefold.ErrLost) {
				require.NoError(e, err, "ignored, or ErrLost")
			}
		}
	}
	assert.Zero(e, e.record(k).Unsettled)
	assert.Empty(e, e.scan(onefold.Query{What: onefold.WhatParked}))
	e.handsOut(f)
	require.NoError(e, f.Close())
	e.handsOut(e.feed())
}

func settleTwice(e *env) {
	k := e.doneWith("a", 5)
	f := e.feed()
	rows := e.handsOut(f, k.EffectID(0), k.EffectID(1), k.EffectID(2), k.EffectID(3), k.EffectID(4))
	all := []onefold.Settlement{
		{Row: rows[0], State: onefold.Sent},
		{Row: rows[1], State: onefold.Discarded},
		{Row: rows[2], State: onefold.Parked, Reason: "poison"},
		{Row: rows[3], State: onefold.Delayed, At: e.clock.Wall().Add(time.Hour)},
		{Row: rows[4], State: onefold.Tried},
	}
	for range 3 {
		require.NoError(e, e.store.Settle(e.ctx, all))
	}
	assert.Equal(e, 3, e.record(k).Unsettled)
	assert.Equal(e, k.EffectID(2), e.parked().Row.Effect.ID)
	e.handsOut(f)
}

func delayedComes(e *env) {
	k := e.doneWith("a", 2)
	f := e.feed()
	rows := e.handsOut(f, k.EffectID(0), k.EffectID(1))
	e.settleOne(onefold.Settlement{Row: rows[0], State: onefold.Delayed, At: e.clock.Wall().Add(lease / 2), Reason: "refused"})
	e.handsOut(f)
	e.clock.Advance(lease/2 - time.Second)
	e.handsOut(f)
	e.clock.Advance(2 * time.Second)
	assert.Equal(e, 2, e.handsOutOne(f, k.EffectID(0)).Attempt)
}

func delayedWallBack(e *env) {
	k := e.doneWith("a", 1)
	f := e.feed()
	row := e.handsOutOne(f, k.EffectID(0))
	e.settleOne(onefold.Settlement{Row: row, State: onefold.Delayed, At: e.clock.Wall().Add(lease / 2)})
	e.clock.StepWall(-48 * time.Hour)
	e.handsOut(f)
	e.clock.Advance(lease/2 + time.Second)
	e.handsOut(f, k.EffectID(0))
}

func delayedAtOnce(e *env) {
	k := e.doneWith("a", 1)
	f := e.feed()
	e.settle(onefold.Delayed, e.handsOutOne(f, k.EffectID(0)))
	assert.Equal(e, 2, e.handsOutOne(f, k.EffectID(0)).Attempt)
}

func attemptsGrow(e *env) {
	k := e.doneWith("a", 1)
	f := e.feed()
	for _, step := range []struct {
		attempt   int
		uncounted bool
	}{{1, false}, {2, true}, {2, true}, {2, false}, {3, false}} {
		row := e.handsOutOne(f, k.EffectID(0))
		assert.Equal(e, step.attempt, row.Attempt)
		e.settleOne(onefold.Settlement{Row: row, State: onefold.Delayed, Uncounted: step.uncounted})
	}
}

func parkedWaits(e *env) {
	k := e.doneWith("a", 2)
	f := e.feed()
	rows := e.handsOut(f, k.EffectID(0), k.EffectID(1))
	e.settleOne(onefold.Settlement{Row: rows[0], State: onefold.Parked, Reason: "no such subject"})
	e.settle(onefold.Sent, rows[1])
	e.handsOut(f)
	assert.Equal(e, 1, e.record(k).Unsettled)
	item := e.parked()
	assert.Equal(e, "no such subject", item.Reason)
	assert.Equal(e, k, item.Row.Key)
	assert.Equal(e, k.EffectID(0), item.Row.Effect.ID)
	require.NoError(e, f.Close())
	f = e.feed()
	e.handsOut(f)

	e.settle(onefold.Delayed, *item.Row)
	assert.Empty(e, e.scan(onefold.Query{What: onefold.WhatParked}))
	row := e.handsOutOne(f, k.EffectID(0))
	assert.Equal(e, 2, row.Attempt)
	e.settle(onefold.Sent, row)
	assert.Zero(e, e.record(k).Unsettled)
}

func parkedDiscarded(e *env) {
	k := e.doneWith("a", 1)
	f := e.feed()
	e.settle(onefold.Parked, e.handsOutOne(f, k.EffectID(0)))
	e.settle(onefold.Discarded, *e.parked().Row)
	assert.Empty(e, e.scan(onefold.Query{What: onefold.WhatParked}))
	assert.Zero(e, e.record(k).Unsettled)
	e.handsOut(f)
}

func parkedTwice(e *env) {
	k := e.doneWith("a", 1)
	f := e.feed()
	e.settle(onefold.Parked, e.handsOutOne(f, k.EffectID(0)))
	seen := *e.parked().Row
	e.settle(onefold.Delayed, seen)
	e.settle(onefold.Delayed, seen)
	e.handsOut(f, k.EffectID(0))
	err := e.store.Settle(e.ctx, []onefold.Settlement{{Row: seen, State: onefold.Discarded}})
	require.ErrorIs(e, err, onefold.ErrLost, "a feed has the row now")
	assert.Equal(e, 1, e.record(k).Unsettled)
}

func triedShows(e *env) {
	k := key("a")
	en := entry(k, message(k, 0))
	en.Effects[0].Once = true
	e.done(en)
	f := e.feed()
	row := e.handsOutOne(f, k.EffectID(0))
	assert.False(e, row.Tried)
	e.settle(onefold.Tried, row)
	e.handsOut(f)
	f = e.feedAgain(f)
	row = e.handsOutOne(f, k.EffectID(0))
	assert.True(e, row.Tried)
	assert.True(e, row.Effect.Once)
	e.settle(onefold.Sent, row)
	e.handsOut(f)
}

func mixedSettle(e *env) {
	k := e.doneWith("a", 4)
	f := e.feed()
	rows := e.handsOut(f, k.EffectID(0), k.EffectID(1), k.EffectID(2), k.EffectID(3))
	require.NoError(e, e.store.Settle(e.ctx, []onefold.Settlement{
		{Row: rows[0], State: onefold.Sent},
		{Row: rows[1], State: onefold.Parked},
		{Row: rows[2], State: onefold.Delayed},
		{Row: rows[3], State: onefold.Discarded},
	}))
	assert.Equal(e, 2, e.record(k).Unsettled)
	assert.Equal(e, k.EffectID(1), e.parked().Row.Effect.ID)
	e.handsOut(f, k.EffectID(2))
	require.NoError(e, e.store.Settle(e.ctx, nil), "nothing to settle")
}

func badSettle(e *env) {
	k := e.doneWith("a", 1)
	f := e.feed()
	row := e.handsOutOne(f, k.EffectID(0))
	for what, bad := range map[string]onefold.Settlement{
		"no state":      {Row: row},
		"unknown state": {Row: row, State: 99},
		"no row":        {State: onefold.Sent},
	} {
		assert.ErrorIs(e, e.store.Settle(e.ctx, []onefold.Settlement{bad}), onefold.ErrInvalid, what)
	}
	e.settle(onefold.Sent, row)
	assert.Zero(e, e.record(k).Unsettled)
}

// allStates are the states that a row can be settled to.
var allStates = []onefold.State{onefold.Sent, onefold.Delayed, onefold.Parked, onefold.Tried, onefold.Discarded}

func foreignRow(e *env) {
	k := e.doneWith("a", 2)
	foreign := e.handsOut(e.feed(), k.EffectID(0), k.EffectID(1))
	home := e.store
	e.use(e.harness.Open(e, e.clock.Clock()))
	e.doneWith("a", 2) // rows that look the same
	f := e.feed()
	rows := e.handsOut(f, k.EffectID(0), k.EffectID(1))
	for _, state := range allStates {
		err := e.store.Settle(e.ctx, []onefold.Settlement{{Row: foreign[0], State: state}})
		require.Error(e, err, state.String())
		if !errors.Is(err, onefold.ErrInvalid) {
			require.ErrorIs(e, err, onefold.ErrLost, state.String())
		}
	}
	assert.Equal(e, 2, e.record(k).Unsettled)
	assert.Empty(e, e.scan(onefold.Query{What: onefold.WhatParked}))
	e.settle(onefold.Sent, rows...)
	e.handsOut(e.feedAgain(f))
	e.store = home
	e.settle(onefold.Sent, foreign...)
	assert.Zero(e, e.record(k).Unsettled)
}
