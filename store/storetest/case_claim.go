package storetest

import (
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func claimCases() []testCase {
	return []testCase{
		{name: "one of fifty callers is granted", run: oneOfFifty,
			rule: "When many callers ask for one key at once, exactly one is granted and all others are told that it is busy."},
		{name: "busy changes nothing", run: busyChangesNothing,
			rule: "A caller who is told that a key is busy leaves the running claim and its token as they were."},
		{name: "busy says when to ask again", run: busySaysWhen,
			rule: "A busy answer names a wait that is longer than nothing and no longer than the holder's lease."},
		{name: "done gives the stored outcome", run: doneGivesOutcome,
			rule: "Once a commit has returned, every further Begin of its key says done and gives the stored record with its result."},
		{name: "an equal holder gets its claim back", run: equalHolder,
			rule: "Begin with the holder of the live claim is a repeat after a lost reply and returns that same claim."},
		{name: "a released key is free at once", run: releasedIsFree,
			rule: "After Release the key can be claimed at once, under a higher token, and its next run can succeed."},
		{name: "a claim is not a record", run: claimIsNoRecord,
			rule: "A key that is running or was released has no record."},
		{name: "keys with other parts are other work", run: otherParts,
			rule: "Keys that differ in scope, ID or generation are different work, even if their parts joined together are equal."},
		{name: "equal contents are not equal work", run: equalContents,
			rule: "Two keys with the same fingerprint and effects are both run."},
		{name: "a redo has its own effects", run: redoHasOwnEffects,
			rule: "The next generation of a done key is run again, and its effects leave under IDs of their own."},
		{name: "an ID may hold any bytes", run: anyBytes,
			rule: "IDs that are long, binary, or contain line breaks and separators are kept exactly."},
		{name: "a bad request is refused", run: badRequest,
			rule: "Begin refuses a zero key, a zero holder and a lease that is not positive, and claims nothing."},
		{name: "a full store refuses fresh keys only", needs: needLimit | needClock, run: fullStore,
			rule: "At its limit a store refuses fresh keys with ErrFull, still answers for stored ones, evicts none, and takes fresh keys again when records have expired."},
	}
}

// together runs f in n goroutines that start at the same moment, and waits for them.
func together(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-start
			f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

func oneOfFifty(e *env) {
	grants := make([]onefold.Grant, 50)
	errs := make([]error, len(grants))
	together(len(grants), func(i int) {
		grants[i], errs[i] = e.store.Begin(e.ctx, request(key("a")))
	})
	granted := 0
	for i, g := range grants {
		require.NoError(e, errs[i])
		if g.Verdict == onefold.Granted {
			granted++
			continue
		}
		assert.Equal(e, onefold.Busy, g.Verdict)
		assert.Positive(e, g.RetryAfter)
		assert.LessOrEqual(e, g.RetryAfter, lease)
	}
	assert.Equal(e, 1, granted, "callers that were granted the key")
}

func busyChangesNothing(e *env) {
	c := e.claim(key("a"))
	for range 3 {
		e.verdict(onefold.Busy, key("a"), "the key is running")
	}
	require.NoError(e, e.store.Renew(e.ctx, c, lease))
	e.commit(c, entry(key("a")))
	assert.Equal(e, c.Token, e.record(key("a")).Token)
}

func busySaysWhen(e *env) {
	r := request(key("a"))
	r.Lease = 7 * time.Second
	e.claimAs(r)
	g := e.verdict(onefold.Busy, key("a"), "the key is running")
	assert.LessOrEqual(e, g.RetryAfter, r.Lease)
}

func doneGivesOutcome(e *env) {
	k := key("a")
	c := e.claim(k)
	en := entry(k)
	en.Result = []byte("paid")
	e.commit(c, en)
	for range 3 {
		r := e.verdict(onefold.Done, k, "the outcome is stored").Record
		assert.Equal(e, k, r.Key)
		assert.Equal(e, print(1), r.Fingerprint)
		assert.Equal(e, onefold.Succeeded, r.Outcome)
		assert.Equal(e, "paid", string(r.Result))
		assert.True(e, r.ResultKept)
		assert.Equal(e, c.Token, r.Token)
		assert.WithinDuration(e, e.record(k).At, r.At, 0)
	}
}

func equalHolder(e *env) {
	r := request(key("a"))
	first := e.claimAs(r)
	again := e.claimAs(r)
	assert.Equal(e, first.Token, again.Token)
	e.verdict(onefold.Busy, key("a"), "another holder asks")
	e.commit(again, entry(key("a")))
	e.verdict(onefold.Done, key("a"), "committed with the claim that was given back")
}

func releasedIsFree(e *env) {
	k := key("a")
	first := e.claim(k)
	require.NoError(e, e.store.Release(e.ctx, first, onefold.Failure{Reason: "no", Counted: true}))
	second := e.claim(k)
	assert.Greater(e, second.Token, first.Token)
	e.commit(second, entry(k, message(k, 0)))
	e.handsOut(e.feed(), k.EffectID(0))
}

func claimIsNoRecord(e *env) {
	k := key("a")
	c := e.claim(k)
	e.nothingStored(k)
	require.NoError(e, e.store.Release(e.ctx, c, onefold.Failure{Reason: "no", Counted: true}))
	e.nothingStored(k)
	assert.Empty(e, e.scan(onefold.Query{What: onefold.WhatRecords}))
}

func otherParts(e *env) {
	keys := []onefold.Key{
		{Scope: "a", ID: "bc"}, {Scope: "ab", ID: "c"}, {ID: "abc"}, {Scope: "abc", ID: "x"},
		{Scope: "a", ID: "b/c"}, {Scope: "a/b", ID: "c"}, {Scope: "a\x00b", ID: "c"}, {Scope: "a", ID: "b\x00c"},
		{Scope: "a", ID: "bc", Gen: 1}, {Scope: "a", ID: "bc", Gen: 2}, {Scope: "a", ID: "bc1"}, {Scope: "a", ID: "bc#1"},
	}
	for _, k := range keys {
		e.claim(k) // all are held at once
	}
	for _, k := range keys {
		e.verdict(onefold.Busy, k, k.String())
	}
}

func equalContents(e *env) {
	for _, id := range []string{"a", "b"} {
		en := entry(key(id), message(key(id), 0))
		en.Effects[0].Payload = []byte("same")
		e.done(en)
	}
	e.handsOut(e.feed(), key("a").EffectID(0), key("b").EffectID(0))
}

func redoHasOwnEffects(e *env) {
	first := e.doneWith("a", 1)
	redo := first
	redo.Gen = 1
	en := entry(redo, message(redo, 0))
	en.Outcome = onefold.DeadLettered
	e.done(en)
	require.NotEqual(e, first.EffectID(0), redo.EffectID(0))
	e.handsOut(e.feed(), first.EffectID(0), redo.EffectID(0))
	assert.Equal(e, onefold.Succeeded, e.record(first).Outcome)
	assert.Equal(e, onefold.DeadLettered, e.record(redo).Outcome)
}

func anyBytes(e *env) {
	ids := []string{
		strings.Repeat("long ", 2048), strings.Repeat("long ", 2048) + "!", "line\nbreak\r\n", "\x00", "\x00\x00",
		"\xff\xfe\x80 not text", "../../etc/passwd", "a.b.*.>", "äöü 漢字 🙂", " ", "'; DROP TABLE marks; --",
	}
	f := e.feed()
	for _, id := range ids {
		k := key(id)
		e.done(entry(k, message(k, 0)))
		assert.Equal(e, k, e.record(k).Key)
	}
	for _, id := range ids {
		e.verdict(onefold.Done, key(id), key(id).String())
	}
	wanted := make([]string, len(ids))
	for i, id := range ids {
		wanted[i] = key(id).EffectID(0)
	}
	for i, r := range e.handsOut(f, wanted...) {
		assert.Equal(e, key(ids[i]), r.Key)
	}
}

func badRequest(e *env) {
	for field, spoil := range map[string]func(*onefold.Request){
		"Key":    func(r *onefold.Request) { r.Key = onefold.Key{} },
		"Lease":  func(r *onefold.Request) { r.Lease = 0 },
		"Holder": func(r *onefold.Request) { r.Holder = onefold.Holder{} },
	} {
		r := request(key("a"))
		spoil(&r)
		_, err := e.store.Begin(e.ctx, r)
		require.ErrorIs(e, err, onefold.ErrInvalid, field)
		assert.ErrorContains(e, err, field, "the error names the field")
	}
	e.claim(key("a"))
}

func fullStore(e *env) {
	e.limited(3)
	for _, id := range []string{"a", "b", "c"} {
		e.done(entry(key(id)))
	}
	_, err := e.store.Begin(e.ctx, request(key("fresh")))
	require.ErrorIs(e, err, onefold.ErrFull)
	for _, id := range []string{"a", "b", "c"} {
		e.verdict(onefold.Done, key(id), "stored keys are never evicted")
	}
	e.clock.Advance(retain + time.Minute)
	e.done(entry(key("fresh")))
}
