package boltstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/onefold-go/onefold"
)

type bothFeeds struct{ mem, bolt onefold.Feed }

// bothRows is one effect in the hands of a relay or of a person, in both stores.
type bothRows struct {
	mem, bolt onefold.Row
	open      int  // in which Open it was handed out
	parked    bool // it comes from Scan
}

func (w *world) feed(r *rand.Rand) {
	d := lease(r)
	m, errM := w.mem.Feed(context.Background(), d)
	b, errB := w.bolt.Feed(context.Background(), d)
	w.tell("%v -> %v", d, class(errM))
	if w.same("Feed", class(errM), class(errB)) && errM == nil {
		w.relay = &bothFeeds{m, b}
	}
}

func (w *world) closeFeed(*rand.Rand) {
	if w.relay != nil {
		w.must(w.relay.mem.Close())
		w.must(w.relay.bolt.Close())
	}
}

// next takes what is due. If the reference has nothing, the store under test must have nothing either; if it
// has something, the other one may take its time.
func (w *world) next(r *rand.Rand) {
	if w.relay == nil {
		w.feed(r)
	}
	if w.relay == nil {
		return
	}
	limit := []int{1, 2, 3, 100}[r.IntN(4)]
	m, errM := w.relay.mem.Next(newImpatient(), limit)
	var ctx context.Context = newImpatient()
	if len(m) > 0 {
		patient, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		ctx = patient
	}
	b, errB := w.relay.bolt.Next(ctx, limit)
	w.tell("at most %d -> %d rows %v", limit, len(m), class(errM))
	if !w.same("Next", class(errM), class(errB)) || !w.same("Next", payloads(m), payloads(b)) {
		return
	}
	for i := range m {
		w.sameRow("Next", &m[i], &b[i])
		w.rows = append(w.rows, &bothRows{mem: m[i], bolt: b[i], open: w.open})
		payload := string(m[i].Effect.Payload)
		w.touched[payload] = !w.suspect[payload]
	}
}

// payloads sorts rows by what tells them apart, and shows it.
func payloads(rows []onefold.Row) []string {
	slices.SortFunc(rows, func(a, b onefold.Row) int {
		return strings.Compare(string(a.Effect.Payload), string(b.Effect.Payload))
	})
	var all []string
	for _, r := range rows {
		all = append(all, string(r.Effect.Payload))
	}
	return all
}

// sameRow compares a row. A crash may have forgotten that it was handed out; what it has forgotten shows when
// the row is seen next, and no more is forgotten until another crash.
func (w *world) sameRow(what string, m, b *onefold.Row) {
	w.same(what, fmt.Sprint(m.Key, m.Tried, showEffect(&m.Effect)), fmt.Sprint(b.Key, b.Tried, showEffect(&b.Effect)))
	payload := string(m.Effect.Payload)
	fewer := m.Attempt - b.Attempt
	if w.guessed[payload] && fewer >= w.fewer[payload] && b.Attempt >= 0 {
		w.fewer[payload] = fewer
	}
	delete(w.guessed, payload)
	w.same(what+": attempts of "+payload+" that are forgotten", w.fewer[payload], fewer)
}

// settle draws rows and what became of them. One handed out before the present Open stands alone: it may be
// reported as lost or, if it has ended, as settled, and nothing may change.
func (w *world) settle(r *rand.Rand) {
	var mem, bolt []onefold.Settlement
	var settled []*bothRows
	for range 1 + r.IntN(4) {
		row := w.row(r)
		if row == nil {
			break
		}
		s := w.settlement(r)
		m, b := s, s
		m.Row, b.Row = row.mem, row.bolt
		if row.open != w.open {
			w.settleLate(m, b)
			return
		}
		mem, bolt, settled = append(mem, m), append(bolt, b), append(settled, row)
		w.tell("%q %v;", row.mem.Effect.Payload, s.State)
	}
	err := w.mem.Settle(context.Background(), mem)
	w.tell("-> %s", class(err))
	w.same("Settle", class(err), class(w.bolt.Settle(context.Background(), bolt)))
	if err == nil && len(mem) > 0 {
		w.wrote()
	}
	for i, row := range settled {
		// A row that has just been settled and stays is known by both with its attempts; one whose hold had
		// ended has told nothing.
		if err == nil && mem[i].State != onefold.Tried {
			delete(w.touched, string(row.mem.Effect.Payload))
		}
	}
}

func (w *world) settleLate(m, b onefold.Settlement) {
	for _, err := range []error{
		w.mem.Settle(context.Background(), []onefold.Settlement{m}), w.bolt.Settle(context.Background(), []onefold.Settlement{b}),
	} {
		if c := class(err); c != "" && c != "lost" {
			w.disagree("Settle of a row of an earlier Open: %v", err)
		}
	}
}

// row draws a row that is or was out, mostly one of the latest.
func (w *world) row(r *rand.Rand) *bothRows {
	n := len(w.rows)
	if n == 0 {
		return nil
	}
	if r.IntN(5) > 0 {
		return w.rows[n-1-r.IntN(min(n, 4))]
	}
	return w.rows[r.IntN(n)]
}

func (w *world) settlement(r *rand.Rand) onefold.Settlement {
	s := onefold.Settlement{
		State: []onefold.State{onefold.Sent, onefold.Sent, onefold.Delayed, onefold.Delayed, onefold.Parked, onefold.Tried, onefold.Discarded}[r.IntN(7)],
	}
	if s.State == onefold.Delayed {
		s.Uncounted = r.IntN(3) == 0
		if r.IntN(3) > 0 {
			s.At = w.appointment(r.IntN(300) - 30)
		}
	}
	s.Hold = s.State == onefold.Parked && r.IntN(2) == 0
	if s.State != onefold.Tried {
		s.Reason = fmt.Sprint("reason ", r.IntN(100))
	}
	return s
}

func (w *world) stats(*rand.Rand) {
	m, errM := w.mem.Stats(context.Background())
	w.bolt.Sweep()
	b, errB := w.bolt.Stats(context.Background())
	w.must(errM)
	w.must(errB)
	w.must(b.Err)
	w.same("Stats", fmt.Sprint(m.Waiting, " waiting, ", m.Parked, " parked, ", m.Claims, " claims, oldest ", m.OldestWaiting, ", last feed ", m.LastFeed),
		fmt.Sprint(b.Waiting, " waiting, ", b.Parked, " parked, ", b.Claims, " claims, oldest ", b.OldestWaiting, ", last feed ", b.LastFeed))
	if b.Records < m.Records || b.Exact && b.Records != m.Records {
		w.disagree("Stats: memstore has %d records and boltstore %d, exact %v", m.Records, b.Records, b.Exact)
	}
}

// scan compares one kind of thing, now and then in pages.
func (w *world) scan(r *rand.Rand) {
	q := onefold.Query{What: []onefold.What{
		onefold.WhatRecords, onefold.WhatWaiting, onefold.WhatParked, onefold.WhatParked, onefold.WhatState, onefold.WhatAttention,
	}[r.IntN(6)]}
	if q.What == onefold.WhatState {
		q.Table = someCell(r).table
	}
	if q.What == onefold.WhatRecords && r.IntN(2) == 0 {
		q.Scope = "ORDERS/mail"
	}
	page := 0
	if r.IntN(2) == 0 {
		page = 1 + r.IntN(5)
	}
	w.tell("%v in pages of %d", q.What, page)
	w.scanBoth(q, page)
}

// audit compares all that can be seen.
func (w *world) audit(*rand.Rand) {
	for _, k := range w.keys {
		w.lookupKey(k)
	}
	for _, table := range []string{"stock", "seen", "none"} {
		w.scanBoth(onefold.Query{What: onefold.WhatState, Table: table}, 0)
	}
	for _, what := range []onefold.What{onefold.WhatRecords, onefold.WhatWaiting, onefold.WhatParked, onefold.WhatAttention} {
		w.scanBoth(onefold.Query{What: what}, 0)
	}
}

func (w *world) scanBoth(q onefold.Query, page int) {
	m, errM := scanAll(w.mem, q, page)
	b, errB := scanAll(w.bolt, q, page)
	if q.What == onefold.WhatAttention && class(errB) == "unsupported" {
		return
	}
	what := fmt.Sprintf("Scan of %s", q.What)
	if !w.same(what, class(errM), class(errB)) || !w.same(what, shown(m), shown(b)) {
		return
	}
	for i := range m {
		if m[i].Row == nil {
			continue
		}
		w.sameRow(what, m[i].Row, b[i].Row)
		if q.What == onefold.WhatParked || q.What == onefold.WhatAttention {
			w.same(what, m[i].Reason, b[i].Reason)
			w.rows = append(w.rows, &bothRows{mem: *m[i].Row, bolt: *b[i].Row, open: w.open, parked: true})
		}
	}
}

// scanAll returns all items, read in pages if page > 0.
func scanAll(s onefold.Store, q onefold.Query, page int) (items []onefold.Item, err error) {
	q.Limit = page
	for {
		n := 0
		for item, err := range s.Scan(context.Background(), q) {
			if err != nil {
				return items, err
			}
			items = append(items, item)
			q.After = item.After
			n++
		}
		if page == 0 || n < page {
			return items, nil
		}
	}
}

// shown sorts items, whose order is not promised, by what they show, and shows it.
func shown(items []onefold.Item) []string {
	show := func(i onefold.Item) string {
		switch {
		case i.Record != nil && i.Record.Erased && !i.Record.Key.IsZero():
			return "an erased record shows its key"
		case i.Record != nil:
			return showRecord(i.Record)
		case i.Row != nil:
			return "row " + string(i.Row.Effect.Payload)
		}
		return fmt.Sprintf("%s %s %q", i.Table, i.Key, i.Value.Data)
	}
	slices.SortFunc(items, func(a, b onefold.Item) int { return strings.Compare(show(a), show(b)) })
	all := make([]string, len(items))
	for i := range items {
		all[i] = show(items[i])
	}
	return all
}
