package diskfault

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/onefold-go/onefold"
)

// relayWait bounds a wait for rows: an erased entry may have taken them along.
const relayWait = 50 * time.Millisecond

// relay hands rows out and settles them.
func (w *worker) relay(limit int, r *rand.Rand) {
	w.mu.Lock()
	expected := w.out
	w.mu.Unlock()
	if expected == 0 {
		return
	}
	rows := w.next(limit)
	settlements := make([]onefold.Settlement, len(rows))
	for i, row := range rows {
		say(sayPublished, row.Effect.Header["Order"][0], row.Effect.Header["Effect"][0])
		settlements[i] = onefold.Settlement{Row: row, State: onefold.Sent}
		switch r.IntN(12) {
		case 0:
			settlements[i].State = onefold.Parked
		case 1:
			settlements[i].State = onefold.Delayed
		}
	}
	w.settle(settlements)
}

func (w *worker) next(limit int) []onefold.Row {
	var err error
	if w.feed == nil {
		if w.feed, err = w.store.Feed(w.ctx, lease); err != nil {
			say(sayError, "feed", class(err))
			w.stop(err)
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(w.ctx, relayWait)
	defer cancel()
	rows, err := w.feed.Next(ctx, limit)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		say(sayError, "next", class(err))
		w.stop(err)
	}
	return rows
}

func (w *worker) settle(settlements []onefold.Settlement) {
	if len(settlements) == 0 {
		return
	}
	since := time.Now()
	for n := 1; ; n++ {
		w.saySettlements(saySettling, settlements)
		err := w.store.Settle(w.ctx, settlements)
		if err == nil {
			break
		}
		say(sayError, "settle", class(err))
		if w.stop(err) || !w.again(n, since) {
			return
		}
	}
	w.saySettlements(saySettled, settlements)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range settlements {
		if s.State != onefold.Delayed {
			w.out = max(0, w.out-1)
		}
	}
}

func (w *worker) saySettlements(word string, settlements []onefold.Settlement) {
	for _, s := range settlements {
		say(word, s.Row.Effect.Header["Order"][0], s.Row.Effect.Header["Effect"][0], s.State)
	}
}

// askStopped asks a store that has stopped everything once.
func (w *worker) askStopped() {
	say(sayStopped)
	s, ctx, k := w.store, w.ctx, keyOf(1<<30)
	_, err := s.Begin(ctx, onefold.Request{Key: k, Lease: lease, Holder: onefold.Holder{Process: 2, Attempt: 1}})
	say(sayAfter, "begin", class(err))
	_, err = s.Lookup(ctx, keyOf(0))
	say(sayAfter, "lookup", class(err))
	_, err = s.Read(ctx, slots, "0")
	say(sayAfter, "read", class(err))
	_, err = s.Wait(ctx, keyOf(0))
	say(sayAfter, "wait", class(err))
	say(sayAfter, "erase", class(s.Erase(ctx, keyOf(0))))
	e := onefold.Entry{Writes: []onefold.Write{{Table: slots, Key: strconv.Itoa(slotsN), Value: []byte("after")}}}
	one := &onefold.Commit{Entry: e}
	if err = s.Commit(ctx, []*onefold.Commit{one}); err == nil {
		err = one.Err
	}
	say(sayAfter, "commit", class(err))
	if w.feed != nil {
		_, err = w.feed.Next(ctx, 1)
		say(sayAfter, "next", class(err))
	} else {
		_, err = s.Feed(ctx, lease)
		say(sayAfter, "feed", class(err))
	}
	for _, err := range s.Scan(ctx, onefold.Query{What: onefold.WhatRecords}) {
		say(sayAfter, "scan", class(err))
		break
	}
}
