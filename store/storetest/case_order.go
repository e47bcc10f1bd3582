package storetest

import (
	"strconv"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func orderCases() []testCase {
	return []testCase{
		{name: "rows of one ordering key leave one at a time", needs: needOrder, run: oneAtATime,
			rule: "Of the rows of one ordering key one is out at a time, in the order of their commits, of the entries in a batch, and of the effects in an entry."},
		{name: "ordering keys do not wait for each other", needs: needOrder, run: keysIndependent,
			rule: "Rows of other ordering keys, and rows without one, never wait for a row."},
		{name: "a delayed row holds up its ordering key", needs: needOrder | needClock, run: delayedHolds,
			rule: "Later rows of an ordering key wait while an earlier one is delayed, and only they."},
		{name: "parked with hold stops the ordering key", needs: needOrder, run: parkedHolds,
			rule: "Later rows of an ordering key wait while an earlier one is parked with Hold, until a person resumes or discards it."},
		{name: "parked without hold lets the others go", needs: needOrder, run: parkedLetsGo,
			rule: "Later rows of an ordering key are handed out while an earlier one is parked without Hold."},
		{name: "a resumed row waits for a later one that is out", needs: needOrder, run: resumedWaits,
			rule: "When a person resumes a parked row while a later one of its ordering key is out, it is handed out when that one is settled, and not beside it."},
		{name: "a row that is given back keeps its place", needs: needOrder, run: keepsPlace,
			rule: "When a hold ends unsettled the row comes again before later rows of its ordering key."},
		{name: "order holds with many askers", needs: needOrder, run: orderWithMany,
			rule: "With several goroutines that ask and settle at once the rows of each ordering key still leave in order, one at a time."},
	}
}

func resumedWaits(e *env) {
	a := key("a")
	e.done(entry(a, ordered(a, 0, "K"), ordered(a, 1, "K")))
	f := e.feed()
	e.settle(onefold.Parked, e.handsOutOne(f, a.EffectID(0)))
	later := e.handsOutOne(f, a.EffectID(1))
	e.settle(onefold.Delayed, *e.parked().Row)
	e.handsOut(f)
	e.settle(onefold.Sent, later)
	e.handsOutOne(f, a.EffectID(0))
}

func oneAtATime(e *env) {
	a, b, c := key("a"), key("b"), key("c")
	e.done(entry(a, ordered(a, 0, "K"), ordered(a, 1, "K")))
	batch := []*onefold.Commit{
		{Claim: e.claim(b), Entry: entry(b, ordered(b, 0, "K"))},
		{Claim: e.claim(c), Entry: entry(c, ordered(c, 0, "K"))},
	}
	require.NoError(e, e.store.Commit(e.ctx, batch))
	f := e.feed()
	for _, id := range []string{a.EffectID(0), a.EffectID(1), b.EffectID(0), c.EffectID(0)} {
		row := e.handsOutOne(f, id)
		e.handsOut(f)
		e.settle(onefold.Sent, row)
	}
	e.handsOut(f)
}

func keysIndependent(e *env) {
	a := key("a")
	e.done(entry(a, ordered(a, 0, "K"), ordered(a, 1, "K"), ordered(a, 2, "L"), message(a, 3), message(a, 4)))
	f := e.feed()
	e.handsOut(f, a.EffectID(0), a.EffectID(2), a.EffectID(3), a.EffectID(4))
}

func delayedHolds(e *env) {
	a := key("a")
	e.done(entry(a, ordered(a, 0, "K"), ordered(a, 1, "K"), ordered(a, 2, "L"), message(a, 3)))
	f := e.feed()
	rows := e.handsOut(f, a.EffectID(0), a.EffectID(2), a.EffectID(3))
	e.settleOne(onefold.Settlement{Row: rows[0], State: onefold.Delayed, At: e.clock.Wall().Add(lease / 2)})
	e.handsOut(f)
	e.clock.Advance(lease/2 + time.Second)
	e.settle(onefold.Sent, e.handsOutOne(f, a.EffectID(0)))
	e.handsOut(f, a.EffectID(1))
}

func parkedHolds(e *env) {
	a := key("a")
	e.done(entry(a, ordered(a, 0, "K"), ordered(a, 1, "K"), ordered(a, 2, "K")))
	f := e.feed()
	hold := func(id string) {
		e.settleOne(onefold.Settlement{Row: e.handsOutOne(f, id), State: onefold.Parked, Hold: true})
	}
	hold(a.EffectID(0))
	e.handsOut(f)
	e.settle(onefold.Delayed, *e.parked().Row)
	e.settle(onefold.Sent, e.handsOutOne(f, a.EffectID(0)))
	hold(a.EffectID(1))
	e.handsOut(f)
	e.settle(onefold.Discarded, *e.parked().Row)
	e.handsOut(f, a.EffectID(2))
}

func parkedLetsGo(e *env) {
	a := key("a")
	e.done(entry(a, ordered(a, 0, "K"), ordered(a, 1, "K")))
	f := e.feed()
	e.settle(onefold.Parked, e.handsOutOne(f, a.EffectID(0)))
	e.settle(onefold.Sent, e.handsOutOne(f, a.EffectID(1)))
	e.settle(onefold.Delayed, *e.parked().Row)
	e.handsOut(f, a.EffectID(0))
}

func keepsPlace(e *env) {
	a := key("a")
	e.done(entry(a, ordered(a, 0, "K"), ordered(a, 1, "K")))
	f := e.feed()
	e.handsOut(f, a.EffectID(0))
	f = e.feedAgain(f)
	e.settle(onefold.Sent, e.handsOutOne(f, a.EffectID(0)))
	e.handsOut(f, a.EffectID(1))
}

func orderWithMany(e *env) {
	const keys, each = 3, 8
	for i := range each {
		k := key(name("a", i))
		en := entry(k)
		for o := range keys {
			en.Effects = append(en.Effects, ordered(k, o, strconv.Itoa(o)))
		}
		e.done(en)
	}
	f := e.feed()
	t := &traffic{out: map[string]bool{}, sent: map[string][]string{}, left: keys * each}
	together(3, func(int) {
		for {
			rows, err := f.Next(e.ctx, 2)
			if err != nil {
				assert.NoError(e, e.ctx.Err(), "the rows stopped coming")
				return
			}
			assert.True(e, t.leave(rows), "two rows of one ordering key are out")
			t.arrive(rows) // before they are settled, when the next ones may come
			assert.NoError(e, e.store.Settle(e.ctx, sentAll(rows)))
			if t.settled(len(rows)) {
				assert.NoError(e, f.Close(), "ends the others")
				return
			}
		}
	})
	for o := range keys {
		got := t.sent[strconv.Itoa(o)]
		require.Len(e, got, each)
		for i, id := range got {
			assert.Equal(e, name("a", i), id)
		}
	}
}

// traffic watches rows with ordering keys that several goroutines carry.
type traffic struct {
	mu   sync.Mutex
	out  map[string]bool     // ordering keys that have a row out
	sent map[string][]string // IDs of the keys, by ordering key
	left int                 // rows not settled yet
}

// leave notes that rows were handed out and reports whether each was the only one of its ordering key.
func (t *traffic) leave(rows []onefold.Row) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	alone := true
	for _, r := range rows {
		alone = alone && !t.out[r.Effect.OrderKey]
		t.out[r.Effect.OrderKey] = true
		t.sent[r.Effect.OrderKey] = append(t.sent[r.Effect.OrderKey], r.Key.ID)
	}
	return alone
}

// arrive notes that rows are about to be settled.
func (t *traffic) arrive(rows []onefold.Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range rows {
		t.out[r.Effect.OrderKey] = false
	}
}

// settled counts n rows off and reports whether they were the last.
func (t *traffic) settled(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left -= n
	return t.left == 0
}

// sentAll settles rows as sent.
func sentAll(rows []onefold.Row) []onefold.Settlement {
	all := make([]onefold.Settlement, len(rows))
	for i, r := range rows {
		all[i] = onefold.Settlement{Row: r, State: onefold.Sent}
	}
	return all
}
