package storetest

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// key is a key of the scope that most cases use.
func key(id string) onefold.Key { return onefold.Key{Scope: "ORDERS/billing", ID: id} }

// print is a fingerprint that differs for each b.
func print(b byte) onefold.Fingerprint {
	return onefold.Fingerprint{Version: 1, Sum: [16]byte{b}}
}

// request asks for k as a holder of its own.
func request(k onefold.Key) onefold.Request {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return onefold.Request{
		Key: k, Fingerprint: print(1), Lease: lease,
		Holder: onefold.Holder{Process: binary.LittleEndian.Uint64(b[:8]), Attempt: binary.LittleEndian.Uint64(b[8:]) | 1},
	}
}

// entry is a success of k without anything else.
func entry(k onefold.Key, effects ...onefold.Effect) onefold.Entry {
	return onefold.Entry{Key: k, Fingerprint: print(1), Outcome: onefold.Succeeded, Retain: retain, Effects: effects}
}

// message is the index-th effect of k.
func message(k onefold.Key, index int) onefold.Effect {
	return onefold.Effect{
		ID: k.EffectID(index), Kind: onefold.KindMessage, Target: "invoices.create",
		Payload: []byte(k.ID + "-" + strconv.Itoa(index)),
	}
}

// ordered is message with an ordering key.
func ordered(k onefold.Key, index int, orderKey string) onefold.Effect {
	f := message(k, index)
	f.OrderKey = orderKey
	return f
}

// timer is an effect of k with a name, not to be sent before at.
func timer(k onefold.Key, name string, at time.Time) onefold.Effect {
	return onefold.Effect{
		ID: k.TimerID(name), Kind: onefold.KindMessage, Target: "timers", Payload: []byte(name),
		Timer: name, NotBefore: at,
	}
}

// put writes one value of state.
func put(table, key, data string) onefold.Write {
	return onefold.Write{Table: table, Key: key, Value: []byte(data)}
}

// begin asks for k as a new holder.
func (e *env) begin(k onefold.Key) onefold.Grant {
	e.Helper()
	return e.beginAs(request(k))
}

func (e *env) beginAs(r onefold.Request) onefold.Grant {
	e.Helper()
	g, err := e.store.Begin(e.ctx, r)
	require.NoError(e, err, "Begin %v", r.Key)
	switch g.Verdict {
	case onefold.Granted:
		require.NotNil(e, g.Claim, "a grant has a claim")
		require.Equal(e, r.Key, g.Claim.Key)
	case onefold.Done:
		require.NotNil(e, g.Record, "done has a record")
	case onefold.Busy:
		require.Positive(e, g.RetryAfter, "busy tells when to ask again")
	}
	return g
}

// claim gets k, which must be free.
func (e *env) claim(k onefold.Key) *onefold.Claim {
	e.Helper()
	return e.claimAs(request(k))
}

func (e *env) claimAs(r onefold.Request) *onefold.Claim {
	e.Helper()
	g := e.beginAs(r)
	require.Equal(e, onefold.Granted, g.Verdict, "Begin %v", r.Key)
	return g.Claim
}

// verdict asks for k and expects an answer.
func (e *env) verdict(want onefold.Verdict, k onefold.Key, why string) onefold.Grant {
	e.Helper()
	g := e.begin(k)
	require.Equal(e, want.String(), g.Verdict.String(), why)
	return g
}

// try commits one entry and returns what became of it.
func (e *env) try(c *onefold.Claim, en onefold.Entry) *onefold.Commit {
	e.Helper()
	one := &onefold.Commit{Claim: c, Entry: en}
	if err := e.store.Commit(e.ctx, []*onefold.Commit{one}); err != nil {
		one.Err = err
	}
	return one
}

// commit commits one entry, which must succeed.
func (e *env) commit(c *onefold.Claim, en onefold.Entry) {
	e.Helper()
	require.NoError(e, e.try(c, en).Err, "Commit %v", en.Key)
}

// done claims and commits an entry.
func (e *env) done(en onefold.Entry) {
	e.Helper()
	e.commit(e.claim(en.Key), en)
}

// doneWith stores a fresh key with n effects and returns it.
func (e *env) doneWith(id string, n int) onefold.Key {
	e.Helper()
	k := key(id)
	en := entry(k)
	for i := range n {
		en.Effects = append(en.Effects, message(k, i))
	}
	e.done(en)
	return k
}

// write stores state without a record.
func (e *env) write(w ...onefold.Write) {
	e.Helper()
	e.commit(nil, onefold.Entry{Writes: w})
}

// read returns a value of state.
func (e *env) read(table, key string) onefold.Value {
	e.Helper()
	v, err := e.store.Read(e.ctx, table, key)
	require.NoError(e, err, "Read %s/%s", table, key)
	return v
}

// nothingStored checks that k has no record.
func (e *env) nothingStored(k onefold.Key) {
	e.Helper()
	_, err := e.store.Lookup(e.ctx, k)
	require.ErrorIs(e, err, onefold.ErrNotFound, "Lookup %v", k)
}

// record returns the record of k.
func (e *env) record(k onefold.Key) onefold.Record {
	e.Helper()
	r, err := e.store.Lookup(e.ctx, k)
	require.NoError(e, err, "Lookup %v", k)
	return r
}

// feed opens the outgoing side.
func (e *env) feed() onefold.Feed {
	e.Helper()
	f, err := e.store.Feed(e.ctx, lease)
	require.NoError(e, err, "Feed")
	return f
}

// handsOut checks that f hands out the effects with these IDs and no others, and returns their rows in
// the order of ids. It adds a row of its own and looks until that and all wanted ones have come.
func (e *env) handsOut(f onefold.Feed, ids ...string) []onefold.Row {
	e.Helper()
	e.sentinels++
	k := onefold.Key{Scope: "storetest sentinel", ID: strconv.Itoa(e.sentinels)}
	e.done(entry(k, message(k, 0)))
	got := map[string]onefold.Row{}
	all := slices.Concat(ids, []string{k.EffectID(0)})
	for len(got) < len(all) {
		rows, err := f.Next(e.ctx, 100)
		require.NoError(e, err, "Next, with %d of %d rows here", len(got), len(all))
		require.NotEmpty(e, rows, "Next returns at least one row")
		for _, r := range rows {
			require.Contains(e, all, r.Effect.ID, "a row that must not be out: %s", r.Effect.Payload)
			require.NotContains(e, got, r.Effect.ID, "a row that is out already: %s", r.Effect.Payload)
			got[r.Effect.ID] = r
		}
	}
	e.settle(onefold.Sent, got[k.EffectID(0)])
	rows := make([]onefold.Row, len(ids))
	for i, id := range ids {
		rows[i] = got[id]
	}
	return rows
}

// handsOutOne is handsOut for one row.
func (e *env) handsOutOne(f onefold.Feed, id string) onefold.Row {
	e.Helper()
	return e.handsOut(f, id)[0]
}

// settle records one state for rows.
func (e *env) settle(state onefold.State, rows ...onefold.Row) {
	e.Helper()
	all := make([]onefold.Settlement, len(rows))
	for i, r := range rows {
		all[i] = onefold.Settlement{Row: r, State: state}
	}
	require.NoError(e, e.store.Settle(e.ctx, all), "Settle %v", state)
}

// settleOne records one settlement.
func (e *env) settleOne(s onefold.Settlement) {
	e.Helper()
	require.NoError(e, e.store.Settle(e.ctx, []onefold.Settlement{s}), "Settle %v", s.State)
}

// scan returns what q finds.
func (e *env) scan(q onefold.Query) []onefold.Item {
	e.Helper()
	var items []onefold.Item
	for item, err := range e.store.Scan(e.ctx, q) {
		require.NoError(e, err, "Scan %s", q.What)
		items = append(items, item)
	}
	return items
}

// scanErr returns the error that ends a scan.
func (e *env) scanErr(q onefold.Query) error {
	e.Helper()
	for _, err := range e.store.Scan(e.ctx, q) {
		if err != nil {
			return err
		}
	}
	return nil
}

// parked returns the only parked row, as a person sees it.
func (e *env) parked() onefold.Item {
	e.Helper()
	items := e.scan(onefold.Query{What: onefold.WhatParked})
	require.Len(e, items, 1, "parked rows")
	require.NotNil(e, items[0].Row)
	return items[0]
}

// name numbers IDs.
func name(prefix string, i int) string { return fmt.Sprintf("%s-%03d", prefix, i) }
