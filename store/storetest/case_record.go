package storetest

import (
	"context"
	"runtime"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func recordCases() []testCase {
	return []testCase{
		{name: "a record counts its unsettled effects", run: countsUnsettled,
			rule: "Record.Unsettled is the number of effects that are neither sent nor discarded, parked and delayed ones included."},
		{name: "wait returns when all effects are settled", run: waitReturns,
			rule: "Wait blocks while an effect of the key is unsettled and returns the record when none is."},
		{name: "wait needs a person for a parked effect", run: waitParked,
			rule: "A parked effect keeps Wait blocked until a person settles it."},
		{name: "wait ends with its context", run: waitCancelled,
			rule: "Wait whose context ends returns its error; Wait for a key without a record returns ErrNotFound."},
		{name: "erasing leaves a mark that dedupes", run: eraseLeavesMark,
			rule: "After Erase the result and the unsent effects are gone, and the key is still done and still guards its fingerprint; erasing twice is success."},
		{name: "an erased key is free after its retention", needs: needClock, run: erasedExpires,
			rule: "The mark of an erased key ends with the retention of its record."},
		{name: "erasing ends a wait", run: eraseEndsWait,
			rule: "Wait for a key whose effects are erased returns."},
		{name: "what runs or is unknown cannot be erased", run: eraseRefused,
			rule: "Erase of a key with a live claim returns ErrBusy and of one without a record ErrNotFound."},
	}
}

func countsUnsettled(e *env) {
	k := e.doneWith("a", 4)
	f := e.feed()
	rows := e.handsOut(f, k.EffectID(0), k.EffectID(1), k.EffectID(2), k.EffectID(3))
	require.Equal(e, 4, e.record(k).Unsettled)
	e.settleOne(onefold.Settlement{Row: rows[0], State: onefold.Delayed, At: e.clock.Wall().Add(time.Hour)})
	e.settle(onefold.Parked, rows[1])
	assert.Equal(e, 4, e.record(k).Unsettled)
	e.settle(onefold.Sent, rows[2])
	e.settle(onefold.Discarded, rows[3])
	assert.Equal(e, 2, e.record(k).Unsettled)
	assert.Equal(e, 2, e.verdict(onefold.Done, k, "committed").Record.Unsettled)
	assert.Zero(e, e.record(e.doneWith("none", 0)).Unsettled)
}

// waited is a call of Wait in a goroutine.
type waited struct {
	record onefold.Record
	err    error
}

func (e *env) waitLater(ctx context.Context, k onefold.Key) <-chan waited {
	result := make(chan waited, 1)
	go func() {
		r, err := e.store.Wait(ctx, k)
		result <- waited{r, err}
	}()
	return result
}

// blocked checks that nothing has come yet. It cannot see a call that is about to return, so it never
// fails a correct store.
func blocked[T any](e *env, result <-chan T, why string) {
	e.Helper()
	select {
	case <-result:
		require.FailNow(e, "returned too early", why)
	default:
	}
}

func waitReturns(e *env) {
	k := e.doneWith("a", 2)
	f := e.feed()
	rows := e.handsOut(f, k.EffectID(0), k.EffectID(1))
	result := e.waitLater(e.ctx, k)
	e.settle(onefold.Sent, rows[0])
	blocked(e, result, "one effect is unsettled")
	e.settle(onefold.Sent, rows[1])
	got := <-result
	require.NoError(e, got.err)
	assert.Equal(e, k, got.record.Key)
	assert.Zero(e, got.record.Unsettled)
	got = <-e.waitLater(e.ctx, k)
	require.NoError(e, got.err, "at once")
}

func waitParked(e *env) {
	k := e.doneWith("a", 1)
	f := e.feed()
	result := e.waitLater(e.ctx, k)
	e.settle(onefold.Parked, e.handsOutOne(f, k.EffectID(0)))
	e.handsOut(f)
	blocked(e, result, "the effect is parked")
	e.settle(onefold.Discarded, *e.parked().Row)
	require.NoError(e, (<-result).err)
}

func waitCancelled(e *env) {
	k := e.doneWith("a", 1)
	ctx, cancel := context.WithCancel(e.ctx)
	result := e.waitLater(ctx, k)
	cancel()
	require.ErrorIs(e, (<-result).err, context.Canceled)
	_, err := e.store.Wait(e.ctx, key("b"))
	require.ErrorIs(e, err, onefold.ErrNotFound)
}

func eraseLeavesMark(e *env) {
	k := key("a")
	en := entry(k, message(k, 0), message(k, 1))
	en.Result = []byte("personal")
	e.done(en)
	f := e.feed()
	e.settle(onefold.Parked, e.handsOut(f, k.EffectID(0), k.EffectID(1))[0])
	for range 2 {
		require.NoError(e, e.store.Erase(e.ctx, k))
	}
	for _, r := range []onefold.Record{e.record(k), *e.verdict(onefold.Done, k, "the mark dedupes").Record} {
		assert.True(e, r.Erased)
		assert.Empty(e, r.Result)
		assert.False(e, r.ResultKept)
		assert.Zero(e, r.Unsettled)
	}
	assert.Equal(e, onefold.Mismatch.String(), e.beginPrinted(k, print(2)).Verdict.String())
	for _, item := range e.scan(onefold.Query{What: onefold.WhatRecords}) {
		assert.NotContains(e, item.Record.Key.ID, k.ID, "the bytes of the key")
	}
	assert.Empty(e, e.scan(onefold.Query{What: onefold.WhatParked}))
	f = e.feedAgain(f)
	e.handsOut(f)
}

func erasedExpires(e *env) {
	e.done(entry(key("a")))
	require.NoError(e, e.store.Erase(e.ctx, key("a")))
	e.clock.Advance(retain - time.Minute)
	e.verdict(onefold.Done, key("a"), "a minute before the end")
	e.clock.Advance(2 * time.Minute)
	e.verdict(onefold.Granted, key("a"), "the retention is over")
}

func eraseEndsWait(e *env) {
	for i := range 5 {
		k := e.doneWith(name("a", i), 1)
		result := e.waitLater(e.ctx, k)
		e.doneWith(name("meanwhile", i), 0) // time for the other goroutine to wait
		runtime.Gosched()
		require.NoError(e, e.store.Erase(e.ctx, k))
		require.NoError(e, (<-result).err)
	}
}

func eraseRefused(e *env) {
	require.ErrorIs(e, e.store.Erase(e.ctx, key("a")), onefold.ErrNotFound)
	c := e.claim(key("a"))
	require.ErrorIs(e, e.store.Erase(e.ctx, key("a")), onefold.ErrBusy)
	e.commit(c, entry(key("a")))
	require.NoError(e, e.store.Erase(e.ctx, key("a")))
}
