package storetest

import (
	"runtime"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func commitCases() []testCase {
	return []testCase{
		{name: "everything of an entry is stored together", run: storedTogether,
			rule: "After a commit the record, the result, the state and the effects of the entry are all there."},
		{name: "repeating a commit is success once", run: repeatCommit,
			rule: "Committing the same claim and entry again succeeds, names the stored record, and adds no record, no effect and no write."},
		{name: "one claim committed from many goroutines is stored once", run: sameCommitTogether,
			rule: "When one claim and entry is committed several times at once, all succeed and it is stored once."},
		{name: "a failure after the outcome revives nothing", run: failureAfterOutcome,
			rule: "Releasing a claim that has been committed is refused with ErrLost and the key stays done."},
		{name: "duplicates that race the commit are never granted", run: raceCommit,
			rule: "A caller that asks for a key while its commit is running or returning is told busy or done, never granted."},
		{name: "an entry that fails fails alone", run: failsAlone,
			rule: "In a batch each entry has its own outcome: the good ones are stored and the failing ones leave no trace."},
		{name: "an entry that is too large is refused", run: tooLarge,
			rule: "An entry over Info.MaxEntry gets ErrTooLarge, its neighbours are stored, and its claim can still commit something smaller."},
		{name: "an unknown join is refused", run: unknownJoin,
			rule: "An entry with a join of another kind of store gets ErrUnsupported, leaves no trace, costs no neighbour, and keeps its claim."},
		{name: "what was committed is not shared", run: notShared,
			rule: "Changing an entry after its commit, or something that the store returned, changes nothing in the store."},
		{name: "a bad entry is refused", run: badEntry,
			rule: "A record without a positive life, a key without an outcome or with one that does not exist, an outcome without a key and a claim for another key are refused, and the claim stays."},
		{name: "a bad effect is refused", run: badEffect,
			rule: "An effect or timer without an ID, without a kind, or that cancels without a timer's name is refused with ErrInvalid, leaves no trace, and the claim stays."},
		{name: "an empty batch is success", run: emptyBatch,
			rule: "A batch without entries does nothing and succeeds."},
		{name: "many committers at once", run: manyCommitters,
			rule: "Batches that are committed at once by many goroutines are all stored, each key once, with all effects."},
	}
}

func storedTogether(e *env) {
	k := key("a")
	en := entry(k, message(k, 0), message(k, 1))
	en.Result = []byte("paid")
	en.Writes = []onefold.Write{put("t", "x", "1"), put("t", "y", "2")}
	e.done(en)
	r := e.record(k)
	assert.Equal(e, "paid", string(r.Result))
	assert.Equal(e, 2, r.Unsettled)
	assert.WithinDuration(e, e.clock.Wall(), r.At, lease, "Record.At is the wall clock of the commit")
	assert.Equal(e, "1", string(e.read("t", "x").Data))
	assert.Equal(e, "2", string(e.read("t", "y").Data))
	e.handsOut(e.feed(), k.EffectID(0), k.EffectID(1))
}

func repeatCommit(e *env) {
	k := key("a")
	c := e.claim(k)
	en := entry(k, message(k, 0))
	en.Result = []byte("paid")
	en.Writes = []onefold.Write{put("t", "x", "1")}
	e.commit(c, en)
	version := e.read("t", "x").Version
	for range 3 {
		again := e.try(c, en)
		require.NoError(e, again.Err)
		require.NotNil(e, again.Existing)
		assert.Equal(e, c.Token, again.Existing.Token)
		assert.Equal(e, "paid", string(again.Existing.Result))
	}
	assert.Equal(e, version, e.read("t", "x").Version)
	assert.Equal(e, 1, e.record(k).Unsettled)
	assert.Len(e, e.scan(onefold.Query{What: onefold.WhatRecords}), 1)
	e.handsOut(e.feed(), k.EffectID(0))
}

func sameCommitTogether(e *env) {
	k := key("a")
	c := e.claim(k)
	en := entry(k, message(k, 0))
	en.Writes = []onefold.Write{put("t", "x", "1")}
	results := make([]*onefold.Commit, 8)
	together(len(results), func(i int) { results[i] = e.try(c, en) })
	fresh := 0
	for _, r := range results {
		require.NoError(e, r.Err)
		if r.Existing == nil {
			fresh++
		}
	}
	assert.Equal(e, 1, fresh, "commits that stored something")
	assert.Equal(e, 1, e.record(k).Unsettled)
	e.handsOut(e.feed(), k.EffectID(0))
}

func failureAfterOutcome(e *env) {
	k := key("a")
	c := e.claim(k)
	e.commit(c, entry(k))
	require.ErrorIs(e, e.store.Release(e.ctx, c, onefold.Failure{Reason: "late", Counted: true}), onefold.ErrLost)
	e.verdict(onefold.Done, k, "stored before the failure")
	e.done(entry(key("b"))) // whatever the failure queued is written by now
	e.verdict(onefold.Done, k, "stored before the failure")
}

func raceCommit(e *env) {
	for round := range 60 {
		k := key(name("a", round))
		c := e.claim(k)
		var asking, done sync.WaitGroup
		var bad [3]string
		asking.Add(len(bad))
		for i := range bad {
			done.Go(func() { bad[i] = e.askUntilDone(k, asking.Done) })
		}
		asking.Wait()
		e.commit(c, entry(k))
		g, err := e.store.Begin(e.ctx, request(k))
		done.Wait()
		require.NoError(e, err)
		require.Equal(e, onefold.Done.String(), g.Verdict.String(), "the commit has returned")
		for _, b := range bad {
			require.Empty(e, b, "round %d", round)
		}
	}
}

// askUntilDone asks for k until it is done and tells what other answer came than busy. It calls asked
// after the first answer.
func (e *env) askUntilDone(k onefold.Key, asked func()) string {
	for ; ; asked = func() {} {
		g, err := e.store.Begin(e.ctx, request(k))
		asked()
		runtime.Gosched() // the committer needs a processor too
		switch {
		case err != nil:
			return err.Error()
		case g.Verdict == onefold.Done:
			return ""
		case g.Verdict != onefold.Busy:
			return "a duplicate got the verdict " + g.Verdict.String()
		}
	}
}

// foreignJoin belongs to no store.
type foreignJoin struct{}

func (foreignJoin) StoreKind() string { return "storetest" }

func failsAlone(e *env) {
	e.write(put("t", "moved", "1"))
	batch := []*onefold.Commit{}
	add := func(id string, spoil func(*onefold.Commit)) {
		k := key(id)
		en := entry(k, message(k, 0))
		en.Writes = []onefold.Write{put("t", id, "1")}
		c := &onefold.Commit{Claim: e.claim(k), Entry: en}
		spoil(c)
		batch = append(batch, c)
	}
	keep := func(*onefold.Commit) {}
	add("good 1", keep)
	add("conflict", func(c *onefold.Commit) {
		c.Entry.Reads = []onefold.Read{{Table: "t", Key: "moved", Version: 0}}
	})
	add("good 2", keep)
	add("join", func(c *onefold.Commit) { c.Entry.Joins = []onefold.Join{foreignJoin{}} })
	add("lost", func(c *onefold.Commit) {
		c.Claim = &onefold.Claim{Key: c.Claim.Key, Token: c.Claim.Token + 100, Lease: c.Claim.Lease}
	})
	add("invalid", func(c *onefold.Commit) { c.Entry.Retain = 0 })
	add("good 3", keep)
	require.NoError(e, e.store.Commit(e.ctx, batch))

	want := map[string]error{
		"conflict": onefold.ErrConflict, "join": onefold.ErrUnsupported, "lost": onefold.ErrLost, "invalid": onefold.ErrInvalid,
	}
	var sent []string
	for _, c := range batch {
		id := c.Entry.Key.ID
		if bad := want[id]; bad != nil {
			assert.ErrorIs(e, c.Err, bad, id)
			e.nothingStored(c.Entry.Key)
			assert.Zero(e, e.read("t", id).Version, id)
			e.verdict(onefold.Busy, c.Entry.Key, "its claim is still held")
			continue
		}
		assert.NoError(e, c.Err, id)
		assert.Nil(e, c.Existing, id)
		assert.Equal(e, "1", string(e.read("t", id).Data))
		sent = append(sent, c.Entry.Key.EffectID(0))
	}
	e.handsOut(e.feed(), sent...)
}

func tooLarge(e *env) {
	limit := e.store.Info().MaxEntry
	require.Positive(e, limit, "Info.MaxEntry")
	var batch []*onefold.Commit
	for _, id := range []string{"a", "large", "b"} {
		batch = append(batch, &onefold.Commit{Claim: e.claim(key(id)), Entry: entry(key(id))})
	}
	large := batch[1]
	large.Entry.Effects = []onefold.Effect{message(key("large"), 0)}
	large.Entry.Effects[0].Payload = []byte(strings.Repeat("x", limit+1))
	require.NoError(e, e.store.Commit(e.ctx, batch))
	require.ErrorIs(e, large.Err, onefold.ErrTooLarge)
	e.nothingStored(key("large"))
	e.verdict(onefold.Done, key("a"), "before the large one")
	e.verdict(onefold.Done, key("b"), "behind the large one")
	e.commit(large.Claim, entry(key("large")))
}

func unknownJoin(e *env) {
	var batch []*onefold.Commit
	for _, id := range []string{"a", "joined", "b"} {
		batch = append(batch, &onefold.Commit{Claim: e.claim(key(id)), Entry: entry(key(id))})
	}
	joined := batch[1]
	joined.Entry.Joins = []onefold.Join{foreignJoin{}}
	require.NoError(e, e.store.Commit(e.ctx, batch))
	require.ErrorIs(e, joined.Err, onefold.ErrUnsupported)
	e.nothingStored(key("joined"))
	e.verdict(onefold.Done, key("a"), "before the joined one")
	e.verdict(onefold.Done, key("b"), "behind the joined one")
	e.commit(joined.Claim, entry(key("joined")))
}

func notShared(e *env) {
	k := key("a")
	en := entry(k, message(k, 0))
	en.Result = []byte("result")
	en.Writes = []onefold.Write{put("t", "x", "value")}
	en.Effects[0].Header = onefold.Header{"Trace": {"one"}}
	payload := string(en.Effects[0].Payload)
	e.done(en)
	copy(en.Result, "????")
	copy(en.Writes[0].Value, "????")
	copy(en.Effects[0].Payload, "????")
	en.Effects[0].Header["Trace"][0] = "????"

	f := e.feed()
	for range 2 {
		r, v := e.record(k), e.read("t", "x")
		assert.Equal(e, "result", string(r.Result))
		assert.Equal(e, "value", string(v.Data))
		copy(r.Result, "YYYY")
		copy(v.Data, "YYYY")
		row := e.handsOutOne(f, k.EffectID(0))
		assert.Equal(e, payload, string(row.Effect.Payload))
		assert.Equal(e, "one", row.Effect.Header.Get("Trace"))
		copy(row.Effect.Payload, "YYYY")
		row.Effect.Header["Trace"][0] = "YYYY"
		e.settle(onefold.Delayed, row)
	}
}

func badEntry(e *env) {
	k := key("a")
	c := e.claim(k)
	for what, spoil := range map[string]func(*onefold.Entry){
		"Retain zero":     func(en *onefold.Entry) { en.Retain = 0 },
		"Retain negative": func(en *onefold.Entry) { en.Retain = -1 },
		"Outcome none":    func(en *onefold.Entry) { en.Outcome = 0 },
		"Outcome unknown": func(en *onefold.Entry) { en.Outcome = onefold.ParkedUnknown + 1 },
		"Key other":       func(en *onefold.Entry) { en.Key = key("b") },
		"Key zero":        func(en *onefold.Entry) { en.Key = onefold.Key{} },
	} {
		en := entry(k)
		spoil(&en)
		err := e.try(c, en).Err
		assert.ErrorIs(e, err, onefold.ErrInvalid, what)
		assert.ErrorContains(e, err, strings.Fields(what)[0], "the error names the field")
	}
	e.nothingStored(k)
	e.nothingStored(key("b"))
	e.commit(c, entry(k))
}

func badEffect(e *env) {
	k := key("a")
	c := e.claim(k)
	for what, spoil := range map[string]func(*onefold.Effect){
		"ID of a message": func(f *onefold.Effect) { f.ID = "" },
		"ID of a timer":   func(f *onefold.Effect) { f.ID, f.Timer = "", "timeout" },
		"ID to cancel":    func(f *onefold.Effect) { f.ID, f.Timer, f.Cancel = "", "timeout", true },
		"Kind":            func(f *onefold.Effect) { f.Kind = "" },
		"Timer to cancel": func(f *onefold.Effect) { f.Cancel = true },
	} {
		en := entry(k, message(k, 0), message(k, 1))
		spoil(&en.Effects[1])
		err := e.try(c, en).Err
		assert.ErrorIs(e, err, onefold.ErrInvalid, what)
		assert.ErrorContains(e, err, strings.Fields(what)[0], "the error names the field")
	}
	e.nothingStored(k)
	e.handsOut(e.feed())
	e.commit(c, entry(k))
}

func emptyBatch(e *env) {
	require.NoError(e, e.store.Commit(e.ctx, nil))
}

func manyCommitters(e *env) {
	const committers, batches, size = 4, 5, 5
	f := e.feed()
	var ids []string
	for i := range committers * batches * size {
		ids = append(ids, key(name("a", i)).EffectID(0))
	}
	together(committers, func(c int) {
		for b := range batches {
			var batch []*onefold.Commit
			for i := range size {
				k := key(name("a", (c*batches+b)*size+i))
				g, err := e.store.Begin(e.ctx, request(k))
				if !assert.NoError(e, err) || !assert.Equal(e, onefold.Granted, g.Verdict) {
					return
				}
				batch = append(batch, &onefold.Commit{Claim: g.Claim, Entry: entry(k, message(k, 0))})
			}
			assert.NoError(e, e.store.Commit(e.ctx, batch))
			for _, one := range batch {
				assert.NoError(e, one.Err)
			}
		}
	})
	for i := range ids {
		e.verdict(onefold.Done, key(name("a", i)), "committed")
	}
	e.handsOut(f, ids...)
}
