package storetest

import (
	"context"
	"errors"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func unknownCases() []testCase {
	return []testCase{
		{name: "repeat after an unknown answer", needs: needHold, run: repeatUnknown,
			rule: "A caller whose context ends while its commit is in flight is told ErrUnknown, and committing again is success: one record, one set of rows, one version."},
		{name: "repeat after an unknown answer without a claim", needs: needHold, run: repeatUnknownClaimless,
			rule: "An entry without a claim whose caller's context ends while it is in flight can be committed again, and is stored once."},
		{name: "a write that fails unknown is never half believed", needs: needFail | needReopen, run: failedWrite,
			rule: "After a physical write with an unknown outcome no key is granted again and no answer is given that a reopen proves wrong; after the reopen the entry is there once or can be committed once."},
	}
}

// commitLater commits in a goroutine; the result comes when it returns.
func (e *env) commitLater(ctx context.Context, c *onefold.Claim, en onefold.Entry) <-chan *onefold.Commit {
	result := make(chan *onefold.Commit, 1)
	go func() {
		one := &onefold.Commit{Claim: c, Entry: en}
		if err := e.store.Commit(ctx, []*onefold.Commit{one}); err != nil {
			one.Err = err
		}
		result <- one
	}()
	return result
}

// everything is an entry with a result, state and an effect.
func everything(k onefold.Key) onefold.Entry {
	en := entry(k, message(k, 0))
	en.Result = []byte("paid")
	en.Writes = []onefold.Write{put("t", "x", "after")}
	return en
}

// commitCancelled commits with a context that ends while the commit is in flight, and once more before
// the first try has landed. meanwhile is called between the two.
func commitCancelled(e *env, c *onefold.Claim, en onefold.Entry, meanwhile func()) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	accepted, release := e.hold()
	first := e.commitLater(ctx, c, en)
	e.await(accepted, "the commit is accepted")
	cancel()
	meanwhile()
	again := e.commitLater(e.ctx, c, en)
	release()
	if err := (<-first).Err; err != nil {
		require.ErrorIs(e, err, onefold.ErrUnknown, "the entry was accepted")
		require.ErrorIs(e, err, context.Canceled)
	}
	require.NoError(e, (<-again).Err, "the repeat while the first try was in flight")
}

// storedOnce checks that the entry of k is there with all its parts, and that repeats add nothing.
func storedOnce(e *env, c *onefold.Claim, en onefold.Entry) {
	version := e.read("t", "x").Version
	for range 2 {
		again := e.try(c, en)
		require.NoError(e, again.Err)
		require.NotNil(e, again.Existing)
		assert.Equal(e, "paid", string(again.Existing.Result))
	}
	assert.Equal(e, "after", string(e.read("t", "x").Data))
	assert.Equal(e, version, e.read("t", "x").Version)
	assert.Equal(e, 1, e.record(en.Key).Unsettled)
	assert.Len(e, e.scan(onefold.Query{What: onefold.WhatRecords}), 1)
	e.handsOut(e.feed(), en.Key.EffectID(0))
}

func repeatUnknown(e *env) {
	k := key("a")
	c := e.claim(k)
	en := everything(k)
	commitCancelled(e, c, en, func() { e.verdict(onefold.Busy, k, "its commit is in flight") })
	storedOnce(e, c, en)
}

func repeatUnknownClaimless(e *env) {
	en := everything(key("a"))
	commitCancelled(e, nil, en, func() {})
	storedOnce(e, nil, en)
}

// belief is what a store has said about an entry since a write failed.
type belief struct {
	stored  bool // some answer relied on the entry
	open    bool // some answer left it open
	settled bool // the row of the other key was settled
}

// tell takes in the answer to a commit of the entry.
func (b *belief) tell(err error) {
	b.stored = b.stored || err == nil
	b.open = b.open || errors.Is(err, onefold.ErrUnknown)
}

func failedWrite(e *env) {
	e.write(put("t", "x", "before"))
	kept := e.doneWith("kept", 1)
	f := e.feed()
	row := e.handsOutOne(f, kept.EffectID(0))
	k := key("a")
	c, en := e.claim(k), everything(k)
	e.in.FailCommits(e)
	b := &belief{}
	b.tell(e.try(c, en).Err)
	probeClaims(e, b, c, kept)
	probeReads(e, b, k)
	probeFeed(e, b, f, row)
	b.tell(e.try(c, en).Err)

	e.reopen(false)
	_, err := e.store.Lookup(e.ctx, k)
	if b.stored {
		require.NoError(e, err, "an answer relied on the entry")
	}
	if !b.stored && !b.open {
		require.ErrorIs(e, err, onefold.ErrNotFound, "the entry was said to be not stored")
	}
	want := map[bool]string{true: "after", false: "before"}[err == nil]
	assert.Equal(e, want, string(e.read("t", "x").Data), "the state is that of the record")
	if again := e.try(c, en); again.Err != nil {
		require.ErrorIs(e, again.Err, onefold.ErrLost)
		require.ErrorIs(e, err, onefold.ErrNotFound, "a stored entry is found again under its claim")
		e.done(en)
	}
	e.verdict(onefold.Done, kept, "stored before the failure")
	ids := []string{k.EffectID(0)}
	if e.record(kept).Unsettled > 0 {
		require.False(e, b.settled, "the row was settled")
		ids = append(ids, kept.EffectID(0))
	}
	e.handsOut(e.feed(), ids...)
}

// probeClaims asks for keys and for the claim while the outcome is open.
func probeClaims(e *env, b *belief, c *onefold.Claim, kept onefold.Key) {
	if g, err := e.store.Begin(e.ctx, request(c.Key)); err == nil {
		require.NotEqual(e, onefold.Granted.String(), g.Verdict.String(), "the entry may be stored")
		b.stored = b.stored || g.Verdict == onefold.Done
	}
	if g, err := e.store.Begin(e.ctx, request(kept)); err == nil {
		require.Equal(e, onefold.Done.String(), g.Verdict.String(), "stored before the failure")
	}
	if b.open {
		err := e.store.Release(e.ctx, c, onefold.Failure{Reason: "no", Counted: true})
		require.Error(e, err, "releasing a claim whose entry may be stored")
	}
}

// probeReads reads the entry while the outcome is open.
func probeReads(e *env, b *belief, k onefold.Key) {
	if _, err := e.store.Lookup(e.ctx, k); err == nil {
		b.stored = true
	}
	if v, err := e.store.Read(e.ctx, "t", "x"); err == nil {
		require.Contains(e, []string{"before", "after"}, string(v.Data))
		b.stored = b.stored || string(v.Data) == "after"
	}
	for item, err := range e.store.Scan(e.ctx, onefold.Query{What: onefold.WhatRecords}) {
		b.stored = b.stored || err == nil && item.Record.Key == k
	}
}

// probeFeed asks for rows and settles one while the outcome is open.
func probeFeed(e *env, b *belief, f onefold.Feed, row onefold.Row) {
	soon, cancel := context.WithTimeout(e.ctx, grace)
	defer cancel()
	if rows, err := f.Next(soon, 10); err == nil {
		b.stored = b.stored || len(rows) > 0 // no other row is due
	}
	b.settled = e.store.Settle(e.ctx, sentAll([]onefold.Row{row})) == nil
}
