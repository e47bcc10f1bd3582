package storetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func triedCases() []testCase {
	const rule = " while a settlement as tried is in flight, then either that settlement fails, or whoever gets the row next is told or refused: no two holders announce one call as the first."
	return []testCase{
		{name: "a parked row knows whether its call was announced", run: parkedTried,
			rule: "A row that is parked after its call was announced says so to whoever scans it, unless it was parked as not having happened; that holds for a restart where the data can be opened again."},
		{name: "a feed closed under an announced call", needs: needHold, rule: "If a feed is closed" + rule,
			run: func(e *env) { triedInFlight(e, func(f onefold.Feed) { require.NoError(e, f.Close()) }) }},
		{name: "a lease ended under an announced call", needs: needHold | needClock, rule: "If the lease of a feed ends" + rule,
			run: func(e *env) { triedInFlight(e, func(onefold.Feed) { e.clock.Advance(lease + time.Second) }) }},
	}
}

// grace is how long a store that can hand out a row gets to do so. One that first waits for what is in
// flight hands it out later.
const grace = 100 * time.Millisecond

// triedInFlight lets the hold on a row end while its announcement may be in flight. A store whose Settle
// cannot be held has answered by then, which is right as well.
func triedInFlight(e *env, end func(onefold.Feed)) {
	k := key("a")
	en := entry(k, message(k, 0))
	en.Effects[0].Once = true
	e.done(en)
	former := e.feed()
	row := e.handsOutOne(former, k.EffectID(0))
	announce := func(r onefold.Row) error {
		return e.store.Settle(e.ctx, []onefold.Settlement{{Row: r, State: onefold.Tried}})
	}

	accepted, release := e.hold()
	answer, answered := error(nil), make(chan struct{})
	go func() {
		defer close(answered)
		answer = announce(row)
	}()
	select {
	case <-accepted:
	case <-answered:
	case <-e.ctx.Done():
		require.FailNow(e, "the settlement was neither held nor answered")
	}
	end(former)
	present := e.feed()
	soon, cancel := context.WithTimeout(e.ctx, grace)
	defer cancel()
	rows, err := present.Next(soon, 10)
	release()
	e.await(answered, "the first announcement is answered")
	if err != nil {
		require.ErrorIs(e, err, context.DeadlineExceeded)
		rows, err = present.Next(e.ctx, 10)
		require.NoError(e, err)
	}
	require.Len(e, rows, 1)

	second := announce(rows[0])
	for _, err := range []error{answer, second} {
		if err != nil {
			require.ErrorIs(e, err, onefold.ErrLost)
		}
	}
	assert.True(e, answer != nil || second != nil || rows[0].Tried, "two holders were told that they are the first")
	again := e.handsOutOne(e.feedAgain(present), k.EffectID(0))
	if answer == nil || second == nil {
		assert.True(e, again.Tried, "a call was announced")
	}
}

func parkedTried(e *env) {
	for id, untried := range map[string]bool{"a": false, "b": true} {
		k := key(id)
		en := entry(k, message(k, 0))
		en.Effects[0].Once = true
		e.done(en)
		f := e.feed()
		row := e.handsOutOne(f, k.EffectID(0))
		require.NoError(e, e.store.Settle(e.ctx, []onefold.Settlement{{Row: row, State: onefold.Tried}}))
		require.NoError(e, e.store.Settle(e.ctx, []onefold.Settlement{{Row: row, State: onefold.Parked, Untried: untried}}))
		require.NoError(e, f.Close())
	}
	check := func() {
		seen := 0
		for item, err := range e.store.Scan(e.ctx, onefold.Query{What: onefold.WhatParked}) {
			require.NoError(e, err)
			assert.Equal(e, item.Row.Key.ID == "a", item.Row.Tried, item.Row.Key.ID)
			seen++
		}
		assert.Equal(e, 2, seen)
	}
	check()
	if e.in.Reopen != nil {
		e.reopen(true)
		check()
	}
}
