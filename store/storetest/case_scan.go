package storetest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func scanCases() []testCase {
	return []testCase{
		{name: "scan finds every record", run: scanRecords,
			rule: "Scan of records finds each unexpired record once, and with a scope only those of that scope."},
		{name: "a long key comes back unchanged", run: longKeys,
			rule: "Lookup and Scan give back keys of ten kilobytes as they were, in records and in rows, and Scan with a long scope finds its records."},
		{name: "scan finds waiting and parked rows", run: scanRows,
			rule: "Scan of waiting rows finds the rows that are not parked, delayed ones with their reason, and Scan of parked rows the parked ones; ended rows are in neither."},
		{name: "scan finds the state of one table", run: scanState,
			rule: "Scan of state finds each value of the named table with its version, and none of another table."},
		{name: "a scan can be continued", run: scanPages,
			rule: "Scans with a limit that go on behind the last item find everything exactly once."},
		{name: "a scan holds nothing up", run: scanHoldsNothing,
			rule: "Between two items of a scan the store can be written and read from the same goroutine."},
		{name: "a bad scan is refused", run: badScan,
			rule: "Scan of an unknown kind, or of state without a table, yields ErrInvalid."},
		{name: "scan finds what needs a person", needs: needAttention, run: scanAttention,
			rule: "Scan of attention finds dead letters, unknown outcomes and parked rows, and nothing else."},
		{name: "what needs a person outlives retention", needs: needAttention | needClock, run: attentionStays,
			rule: "A dead letter and an unknown outcome are still found by Scan of attention after their record has expired, until they are erased."},
		{name: "stats count", run: statsCount,
			rule: "Stats count records, claims, waiting and parked rows, and the position grows with each commit. Counters that are not exact miss nothing that is there, and count nothing that never was."},
		{name: "stats count what needs a person", needs: needAttention, run: statsAttention,
			rule: "Stats count dead letters, unknown outcomes and parked rows as what needs a person, until they are erased or have ended."},
		{name: "a scan of what needs a person can be continued", needs: needAttention, run: attentionPages,
			rule: "Scans of attention with a limit that go on behind the last item find each record and each parked row exactly once."},
		{name: "a newer outcome takes the place of a dead letter", needs: needAttention | needClock, run: attentionReplaced,
			rule: "Scan of attention shows one outcome of a key at most: the commit of a newer one removes the older, and a success leaves none."},
		{name: "stats tell how old the oldest waiting row is", needs: needClock, run: statsAges,
			rule: "Stats tell the age of the oldest row that is neither parked nor delayed, and how long ago a relay last asked, or that none ever did."},
	}
}

func scanRecords(e *env) {
	want := map[onefold.Key]int{}
	for i := range 10 {
		k := key(strconv.Itoa(i))
		if i%2 == 0 {
			k.Scope = "PAYMENTS/billing"
		}
		en := entry(k)
		en.Result = []byte(k.ID)
		e.done(en)
		want[k] = 1
	}
	got := map[onefold.Key]int{}
	for _, item := range e.scan(onefold.Query{What: onefold.WhatRecords}) {
		require.NotNil(e, item.Record)
		got[item.Record.Key]++
		assert.Equal(e, item.Record.Key.ID, string(item.Record.Result))
	}
	assert.Equal(e, want, got)
	scoped := e.scan(onefold.Query{What: onefold.WhatRecords, Scope: "PAYMENTS/billing"})
	assert.Len(e, scoped, 5)
	for _, item := range scoped {
		assert.Equal(e, "PAYMENTS/billing", item.Record.Key.Scope)
	}
}

func longKeys(e *env) {
	long := strings.Repeat("long ", 2048)
	want := map[onefold.Key]int{{Scope: "ORDERS/billing", ID: long}: 1, {Scope: long, ID: "a", Gen: 3}: 1}
	for k := range want {
		e.done(entry(k, message(k, 0)))
		assert.True(e, k == e.record(k).Key, "Lookup")
		assert.True(e, k == e.verdict(onefold.Done, k, "committed").Record.Key, "Begin")
	}
	records, rows := map[onefold.Key]int{}, map[onefold.Key]int{}
	for _, item := range e.scan(onefold.Query{What: onefold.WhatRecords}) {
		records[item.Record.Key]++
	}
	for _, item := range e.scan(onefold.Query{What: onefold.WhatWaiting}) {
		rows[item.Row.Key]++
	}
	assert.True(e, maps.Equal(want, records), "Scan of records")
	assert.True(e, maps.Equal(want, rows), "Scan of rows")
	assert.Len(e, e.scan(onefold.Query{What: onefold.WhatRecords, Scope: long}), 1)
}

// rowIDs are the effect IDs of scanned rows, sorted.
func rowIDs(items []onefold.Item) []string {
	ids := []string{}
	for _, item := range items {
		if item.Row != nil {
			ids = append(ids, item.Row.Effect.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func sorted(ids ...string) []string {
	slices.Sort(ids)
	return ids
}

func scanRows(e *env) {
	k := e.doneWith("a", 4)
	f := e.feed()
	rows := e.handsOut(f, k.EffectID(0), k.EffectID(1), k.EffectID(2), k.EffectID(3))
	e.settle(onefold.Sent, rows[0])
	e.settleOne(onefold.Settlement{Row: rows[1], State: onefold.Parked, Reason: "poison"})
	e.settleOne(onefold.Settlement{Row: rows[2], State: onefold.Delayed, Reason: "later", At: e.clock.Wall().Add(time.Hour)})
	waiting := e.scan(onefold.Query{What: onefold.WhatWaiting})
	assert.Equal(e, sorted(k.EffectID(2), k.EffectID(3)), rowIDs(waiting))
	for _, item := range waiting {
		if item.Row.Effect.ID == k.EffectID(2) {
			assert.Equal(e, "later", item.Reason)
		}
	}
	item := e.parked()
	assert.Equal(e, k.EffectID(1), item.Row.Effect.ID)
	assert.Equal(e, rows[1].Effect, item.Row.Effect)
	assert.Equal(e, "poison", item.Reason)
}

func scanState(e *env) {
	e.write(put("t", "x", "1"), put("t", "y", "2"), put("u", "x", "3"), put("tt", "x", "4"))
	got := map[string]string{}
	for _, item := range e.scan(onefold.Query{What: onefold.WhatState, Table: "t"}) {
		assert.Equal(e, "t", item.Table)
		assert.Equal(e, e.read("t", item.Key), item.Value)
		got[item.Key] = string(item.Value.Data)
	}
	assert.Equal(e, map[string]string{"x": "1", "y": "2"}, got)
}

func scanPages(e *env) {
	en := entry(key("rows"))
	for i := range 7 {
		e.done(entry(key(strconv.Itoa(i))))
		en.Effects = append(en.Effects, message(en.Key, i))
		en.Writes = append(en.Writes, put("t", strconv.Itoa(i), "v"))
	}
	e.done(en)
	for _, q := range []onefold.Query{
		{What: onefold.WhatRecords}, {What: onefold.WhatWaiting}, {What: onefold.WhatState, Table: "t"},
	} {
		whole := e.scan(q)
		var parts []onefold.Item
		q.Limit = 3
		for range 4 {
			page := e.scan(q)
			require.LessOrEqual(e, len(page), 3)
			parts = append(parts, page...)
			if len(page) > 0 {
				q.After = page[len(page)-1].After
			}
		}
		require.Len(e, parts, len(whole), string(q.What))
		seen := map[string]bool{}
		for _, item := range parts {
			assert.False(e, seen[item.After], "%s: found twice", q.What)
			seen[item.After] = true
		}
	}
}

func scanHoldsNothing(e *env) {
	for i := range 3 {
		e.doneWith(name("a", i), 1)
	}
	e.write(put("t", "x", "1"), put("t", "y", "1"))
	n := 0
	for _, q := range []onefold.Query{
		{What: onefold.WhatRecords}, {What: onefold.WhatWaiting}, {What: onefold.WhatState, Table: "t"},
	} {
		for _, err := range e.store.Scan(e.ctx, q) {
			require.NoError(e, err)
			n++
			if n > 100 {
				break // it may find what is added meanwhile
			}
			e.done(entry(key(name("meanwhile", n))))
			e.verdict(onefold.Done, key(name("meanwhile", n)), "stored during a scan")
		}
	}
	assert.GreaterOrEqual(e, n, 8)
}

func badScan(e *env) {
	assert.ErrorIs(e, e.scanErr(onefold.Query{What: "nothing"}), onefold.ErrInvalid)
	assert.ErrorIs(e, e.scanErr(onefold.Query{}), onefold.ErrInvalid)
	assert.ErrorIs(e, e.scanErr(onefold.Query{What: onefold.WhatState}), onefold.ErrInvalid)
}

// ended stores k with an outcome.
func (e *env) ended(k onefold.Key, outcome onefold.Outcome, effects ...onefold.Effect) {
	e.Helper()
	en := entry(k, effects...)
	en.Outcome = outcome
	e.done(en)
}

// attention is what needs a person: outcomes by key, and the IDs of rows.
func (e *env) attention() (map[onefold.Key]onefold.Outcome, []string) {
	e.Helper()
	items := e.scan(onefold.Query{What: onefold.WhatAttention})
	outcomes := map[onefold.Key]onefold.Outcome{}
	for _, item := range items {
		if item.Record != nil {
			outcomes[item.Record.Key] = item.Record.Outcome
		}
	}
	return outcomes, rowIDs(items)
}

func scanAttention(e *env) {
	k := e.doneWith("good", 1)
	e.ended(key("dead"), onefold.DeadLettered)
	e.ended(key("unknown"), onefold.ParkedUnknown)
	e.settle(onefold.Parked, e.handsOutOne(e.feed(), k.EffectID(0)))
	outcomes, rows := e.attention()
	assert.Equal(e, map[onefold.Key]onefold.Outcome{
		key("dead"): onefold.DeadLettered, key("unknown"): onefold.ParkedUnknown,
	}, outcomes)
	assert.Equal(e, []string{k.EffectID(0)}, rows)
	e.settle(onefold.Discarded, *e.parked().Row)
	_, rows = e.attention()
	assert.Empty(e, rows)
}

func attentionStays(e *env) {
	e.ended(key("dead"), onefold.DeadLettered)
	e.ended(key("unknown"), onefold.ParkedUnknown)
	e.clock.Advance(2 * retain)
	e.done(entry(key("other"))) // something for the store to do
	e.nothingStored(key("dead"))
	outcomes, _ := e.attention()
	assert.Len(e, outcomes, 2)
	require.NoError(e, e.store.Erase(e.ctx, key("dead")))
	outcomes, _ = e.attention()
	assert.Equal(e, map[onefold.Key]onefold.Outcome{key("unknown"): onefold.ParkedUnknown}, outcomes)
}

func attentionPages(e *env) {
	k := e.doneWith("rows", 3)
	for i := range 4 {
		e.ended(key(strconv.Itoa(i)), onefold.DeadLettered)
	}
	f := e.feed()
	e.settle(onefold.Parked, e.handsOut(f, k.EffectID(0), k.EffectID(1), k.EffectID(2))...)
	whole, parts := e.scan(onefold.Query{What: onefold.WhatAttention}), []onefold.Item{}
	require.Len(e, whole, 7)
	q := onefold.Query{What: onefold.WhatAttention, Limit: 2}
	for range len(whole) {
		page := e.scan(q)
		require.LessOrEqual(e, len(page), 2)
		parts = append(parts, page...)
		if len(page) > 0 {
			q.After = page[len(page)-1].After
		}
	}
	require.Len(e, parts, len(whole))
	for i := range whole {
		assert.Equal(e, whole[i].After, parts[i].After)
	}
}

func attentionReplaced(e *env) {
	e.ended(key("better"), onefold.DeadLettered)
	e.ended(key("worse"), onefold.ParkedUnknown)
	e.clock.Advance(2 * retain)
	e.ended(key("better"), onefold.Succeeded)
	e.ended(key("worse"), onefold.DeadLettered)
	check := func() {
		items := e.scan(onefold.Query{What: onefold.WhatAttention})
		require.Len(e, items, 1)
		assert.Equal(e, key("worse"), items[0].Record.Key)
		assert.Equal(e, onefold.DeadLettered, items[0].Record.Outcome)
	}
	check()
	if e.in.Reopen != nil {
		e.reopen(false)
		check()
	}
	require.NoError(e, e.store.Erase(e.ctx, key("worse")))
	assert.Empty(e, e.scan(onefold.Query{What: onefold.WhatAttention}))
}

func (e *env) stats() onefold.Stats {
	e.Helper()
	st, err := e.store.Stats(e.ctx)
	require.NoError(e, err)
	return st
}

func statsCount(e *env) {
	before := e.stats()
	assert.NoError(e, before.Err)
	k := e.doneWith("a", 3)
	e.claim(key("running"))
	f := e.feed()
	rows := e.handsOut(f, k.EffectID(0), k.EffectID(1), k.EffectID(2))
	e.settle(onefold.Parked, rows[0])
	e.settle(onefold.Sent, rows[1])
	st := e.stats()
	assert.Greater(e, st.Position, before.Position)
	for what, c := range map[string]struct{ got, there, ever uint64 }{
		"Records": {st.Records, 2, 2}, // one of the case, one of handsOut
		"Claims":  {st.Claims, 1, 3},
		"Waiting": {st.Waiting, 1, 4},
		"Parked":  {st.Parked, 1, 1},
	} {
		assert.GreaterOrEqual(e, c.got, c.there, what)
		assert.LessOrEqual(e, c.got, c.ever, what)
		if st.Exact {
			assert.Equal(e, c.there, c.got, what)
		}
	}
}

func statsAttention(e *env) {
	count := func(want uint64) {
		st := e.stats()
		assert.GreaterOrEqual(e, st.Attention, want)
		if st.Exact {
			assert.Equal(e, want, st.Attention)
		}
	}
	count(0)
	k := e.doneWith("rows", 2)
	e.ended(key("dead"), onefold.DeadLettered)
	e.ended(key("unknown"), onefold.ParkedUnknown)
	e.settle(onefold.Parked, e.handsOut(e.feed(), k.EffectID(0), k.EffectID(1))...)
	count(4)
	e.settle(onefold.Discarded, *e.scan(onefold.Query{What: onefold.WhatParked})[0].Row)
	require.NoError(e, e.store.Erase(e.ctx, key("unknown")))
	count(2)
}

func statsAges(e *env) {
	st := e.stats()
	assert.Negative(e, st.LastFeed, "no relay ever asked")
	assert.Zero(e, st.OldestWaiting)
	k := e.doneWith("a", 1)
	e.clock.Advance(10 * time.Second)
	assert.InDelta(e, 10, e.stats().OldestWaiting.Seconds(), 1)
	f := e.feed()
	row := e.handsOutOne(f, k.EffectID(0))
	e.clock.Advance(5 * time.Second)
	assert.InDelta(e, 5, e.stats().LastFeed.Seconds(), 1)
	ctx, cancel := context.WithCancel(e.ctx)
	waits := e.nextLater(ctx, f)
	require.Eventually(e, func() bool { return e.stats().LastFeed == 0 }, 10*time.Second, time.Millisecond)
	e.clock.Advance(5 * time.Second)
	assert.Zero(e, e.stats().LastFeed, "a relay waits for rows")
	cancel()
	<-waits
	e.settle(onefold.Parked, row)
	assert.Zero(e, e.stats().OldestWaiting, "the only row is parked")
}
