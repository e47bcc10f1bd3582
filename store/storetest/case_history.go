package storetest

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func historyCases() []testCase {
	return []testCase{
		{name: "counted failures are counted", run: countedFailures,
			rule: "Each release with a counted failure adds one to the failures that the next grant of the key tells, with the last reason and the time of the first attempt."},
		{name: "uncounted failures use up no attempt", run: uncountedFailures,
			rule: "A release with an uncounted failure leaves the number of failures as it was."},
		{name: "histories belong to their keys", run: historiesApart,
			rule: "Failures of one key, or of one generation, are not told of another."},
		{name: "a durable start is counted before it is granted", run: durableStarts,
			rule: "A grant with Request.Durable adds one start to what the next grant tells, also if the claim is given back to its holder twice, and never to what its own holder is told; other grants add none."},
		{name: "a start can be counted for a claim that is held", run: startCountedLater,
			rule: "Begin again by the holder of a claim, with Request.Durable, counts the start of its attempt once, under the same token."},
		{name: "a start after failures shows when it is cut short", needs: needClock, run: cutShortAfterFailures,
			rule: "A durable start whose lease ended without a release is told as one start more than failures, also if earlier attempts have failed without a durable start."},
		{name: "a start that was given back was not cut short", run: startGivenBack,
			rule: "An uncounted release takes back the durable start of its attempt, so that starts without failures mean attempts that were cut short."},
		{name: "a cut-short start shows", needs: needClock, run: startCutShort,
			rule: "A durable start whose lease ended without a release is told as a start without a failure."},
		{name: "an outcome ends the history", needs: needClock, run: outcomeEndsHistory,
			rule: "When the outcome of a key is stored its failures are forgotten, and a later use of the expired key starts with none."},
		{name: "a long reason is cut", run: longReason,
			rule: "Of the reason of a failure at most MaxReasonBytes are kept, from its beginning and never cut within a character."},
	}
}

// fail claims k and gives it back with a failure.
func (e *env) fail(k onefold.Key, reason string, counted bool) {
	e.Helper()
	require.NoError(e, e.store.Release(e.ctx, e.claim(k), onefold.Failure{Reason: reason, Counted: counted}))
}

// history is what the next grant of k tells.
func (e *env) history(k onefold.Key) onefold.History {
	e.Helper()
	g := e.verdict(onefold.Granted, k, "the key is free")
	require.NoError(e, e.store.Release(e.ctx, g.Claim, onefold.Failure{Reason: "looked only"}))
	return g.History
}

func countedFailures(e *env) {
	k := key("a")
	assert.Equal(e, onefold.History{}, e.history(k), "a fresh key has no history")
	first := e.clock.Wall()
	for i, reason := range []string{"one", "two", "three"} {
		e.fail(k, reason, true)
		h := e.history(k)
		assert.Equal(e, i+1, h.Failures)
		assert.Equal(e, reason, h.LastReason)
		assert.WithinDuration(e, first, h.First, time.Second)
		e.clock.Advance(time.Minute)
	}
}

func uncountedFailures(e *env) {
	e.fail(key("a"), "one", true)
	for range 3 {
		e.fail(key("a"), "shutdown", false)
	}
	assert.Equal(e, 1, e.history(key("a")).Failures)
}

func historiesApart(e *env) {
	e.fail(key("a"), "one", true)
	redo := key("a")
	redo.Gen = 1
	assert.Zero(e, e.history(key("b")).Failures)
	assert.Zero(e, e.history(redo).Failures)
	assert.Equal(e, 1, e.history(key("a")).Failures)
}

func durableStarts(e *env) {
	k := key("a")
	r := request(k)
	r.Durable = true
	assert.Zero(e, e.beginAs(r).History.Starts, "earlier attempts only")
	g := e.beginAs(r)
	require.Equal(e, onefold.Granted, g.Verdict)
	assert.Zero(e, g.History, "its own start is no earlier attempt")
	require.NoError(e, e.store.Release(e.ctx, g.Claim, onefold.Failure{Reason: "no", Counted: true}))
	e.fail(k, "not durable", true)
	h := e.history(k)
	assert.Equal(e, 1, h.Starts)
	assert.Equal(e, 2, h.Failures)
}

func startCountedLater(e *env) {
	r := request(key("a"))
	first := e.claimAs(r)
	r.Durable = true
	for range 2 {
		g := e.beginAs(r)
		require.Equal(e, onefold.Granted, g.Verdict)
		assert.Equal(e, first.Token, g.Claim.Token)
		assert.Zero(e, g.History, "its own start is no earlier attempt")
	}
	require.NoError(e, e.store.Release(e.ctx, first, onefold.Failure{Reason: "no", Counted: true}))
	h := e.history(key("a"))
	assert.Equal(e, 1, h.Starts)
	assert.Equal(e, 1, h.Failures)
}

func cutShortAfterFailures(e *env) {
	k := key("a")
	for range 3 {
		e.fail(k, "not durable", true)
	}
	r := request(k)
	r.Durable = true
	e.claimAs(r)
	e.clock.Advance(lease + time.Second)
	h := e.history(k)
	assert.Equal(e, 3, h.Failures)
	assert.Equal(e, 4, h.Starts)
}

func startGivenBack(e *env) {
	r := request(key("a"))
	r.Durable = true
	c := e.claimAs(r)
	require.NoError(e, e.store.Release(e.ctx, c, onefold.Failure{Reason: "shutdown"}))
	h := e.history(key("a"))
	assert.Zero(e, h.Starts)
	assert.Zero(e, h.Failures)
}

func startCutShort(e *env) {
	r := request(key("a"))
	r.Durable = true
	e.claimAs(r)
	e.clock.Advance(lease + time.Second)
	h := e.history(key("a"))
	assert.Equal(e, 1, h.Starts)
	assert.Zero(e, h.Failures)
}

func outcomeEndsHistory(e *env) {
	k := key("a")
	e.fail(k, "one", true)
	e.done(entry(k))
	e.clock.Advance(retain + time.Minute)
	h := e.history(k)
	assert.Zero(e, h.Failures)
	assert.Zero(e, h.Starts)
	assert.Empty(e, h.LastReason)
}

func longReason(e *env) {
	reason := strings.Repeat("because ", 1<<14)
	e.fail(key("a"), reason, true)
	kept := e.history(key("a")).LastReason
	assert.NotEmpty(e, kept)
	assert.LessOrEqual(e, len(kept), onefold.MaxReasonBytes)
	assert.True(e, strings.HasPrefix(reason, kept), "the beginning is kept")
	reason = strings.Repeat("漢", onefold.MaxReasonBytes)
	e.fail(key("b"), reason, true)
	kept = e.history(key("b")).LastReason
	assert.NotEmpty(e, kept)
	assert.True(e, utf8.ValidString(kept), "cut between two characters")
}
