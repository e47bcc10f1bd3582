package storetest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func eraseCases() []testCase {
	return []testCase{
		{name: "erasing a key that was used again leaves no result", needs: needClock, run: eraseUsedAgain,
			rule: "When a key was stored anew after its record expired and is erased then, neither of its results and none of its rows is found anywhere."},
		{name: "rows of an expired key can be erased", needs: needClock, run: eraseExpired,
			rule: "Erase of a key whose retention has ended while effects of it wait or are parked is success and removes them; nothing is left of the key then."},
		{name: "failures of an unfinished key can be erased", run: eraseFailures,
			rule: "Erase of a key that has failed and has no outcome is success and removes its failures, whose reasons may name a person."},
	}
}

// noTrace checks that no scan shows a result, a row, or the bytes of k. The store holds nothing else.
func noTrace(e *env, k onefold.Key) {
	e.Helper()
	for _, what := range []onefold.What{onefold.WhatRecords, onefold.WhatWaiting, onefold.WhatParked, onefold.WhatAttention} {
		for item, err := range e.store.Scan(e.ctx, onefold.Query{What: what}) {
			if what == onefold.WhatAttention && err != nil {
				require.ErrorIs(e, err, onefold.ErrUnsupported)
				break
			}
			require.NoError(e, err)
			assert.Nil(e, item.Row, "a row in %s", what)
			if item.Record != nil {
				assert.Empty(e, item.Record.Result, what)
				assert.NotEqual(e, k, item.Record.Key, what)
			}
		}
	}
}

func eraseUsedAgain(e *env) {
	k := key("a")
	for _, outcome := range []onefold.Outcome{onefold.DeadLettered, onefold.Succeeded} {
		en := entry(k, message(k, 0))
		en.Outcome, en.Result = outcome, []byte("personal")
		e.clock.Advance(retain + time.Minute)
		e.done(en)
		if outcome == onefold.DeadLettered { // what is unsettled does not expire
			f := e.feed()
			e.settle(onefold.Sent, e.handsOutOne(f, k.EffectID(0)))
			require.NoError(e, f.Close())
		}
	}
	require.NoError(e, e.store.Erase(e.ctx, k))
	noTrace(e, k)
	r := e.verdict(onefold.Done, k, "the mark dedupes").Record
	assert.True(e, r.Erased)
	assert.Empty(e, r.Result)
	if e.in.Reopen != nil {
		e.reopen(false)
		noTrace(e, k)
	}
	e.handsOut(e.feed())
}

func eraseExpired(e *env) {
	k := e.doneWith("a", 3)
	f := e.feed()
	rows := e.handsOut(f, k.EffectID(0), k.EffectID(1), k.EffectID(2))
	e.settle(onefold.Parked, rows[0])
	e.settleOne(onefold.Settlement{Row: rows[1], State: onefold.Delayed, At: e.clock.Wall().Add(1000 * retain)})
	e.clock.Advance(2 * retain) // the third row is waiting again
	require.NoError(e, e.store.Erase(e.ctx, k))
	noTrace(e, k)
	e.nothingStored(k)
	if err := e.store.Erase(e.ctx, k); err != nil {
		require.ErrorIs(e, err, onefold.ErrNotFound, "nothing is left of it")
	}
	e.handsOut(e.feedAgain(f))
	e.verdict(onefold.Granted, k, "expired long ago")
}

func eraseFailures(e *env) {
	k := key("a")
	e.fail(k, "personal", true)
	require.NoError(e, e.store.Erase(e.ctx, k))
	assert.Zero(e, e.history(k))
}
