package onefoldtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/onefold-go/onefold"
)

// sent is what a receiver that dedupes by ID has.
type sent struct {
	onefold.Effect
	key   onefold.Key
	times int
}

// feedLease is how long the relay may hold rows; it never takes that long.
const feedLease = time.Minute

// relay sends what is due. It stands in for the relay of package outbox, with memory for a server.
func (w *world) relay() {
	done := make(chan struct{})
	go func() { // a goroutine of its own, because it may die on the way
		defer close(done)
		// A dead letter that has left ends a message on a goroutine of its own: the process may die there meanwhile.
		if err := w.send(context.Background()); err != nil && !w.died() {
			w.kit.report("relay", "the kit's relay could not send: %v", err)
		}
	}()
	<-done
}

// send takes due rows from the feed until there are none, as a relay does.
func (w *world) send(ctx context.Context) error {
	feed, err := w.store.Feed(ctx, feedLease)
	if err != nil {
		return err
	}
	defer func() { _ = feed.Close() }()
	for {
		waiting, err := w.waiting(ctx)
		if err != nil || !anyDue(waiting, w.clock.Wall()) {
			return err
		}
		rows, err := feed.Next(ctx, len(waiting))
		if err != nil {
			return err
		}
		for _, r := range rows {
			r.Effect.ID = r.LeavesAs()
			if err := w.sendRow(ctx, r); err != nil {
				return err
			}
		}
	}
}

// waiting is what has not left, in the order of the commits.
func (w *world) waiting(ctx context.Context) (rows []onefold.Row, err error) {
	var items []onefold.Item
	for item, err := range w.store.Scan(ctx, onefold.Query{What: onefold.WhatWaiting}) {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	slices.SortFunc(items, func(a, b onefold.Item) int { return cmp.Compare(a.After, b.After) })
	for _, item := range items {
		rows = append(rows, *item.Row)
	}
	return rows, nil
}

// anyDue reports whether a feed would hand out one of rows, which are in their order and not out.
func anyDue(rows []onefold.Row, now time.Time) bool {
	held := map[string]bool{}
	for _, r := range rows {
		order := r.Effect.OrderKey
		switch {
		case order != "" && held[order]:
		case !r.Effect.NotBefore.After(now):
			return true
		default:
			held[order] = true
		}
	}
	return false
}

func (w *world) sendRow(ctx context.Context, r onefold.Row) error {
	event := onefold.RowEvent{At: w.clock.Wall(), Key: r.Key, ID: r.Effect.ID, Kind: r.Effect.Kind, Target: r.Effect.Target, Attempt: r.Attempt}
	var own onefold.Observer
	if w.kit.cfg.Observer != nil {
		own = *w.kit.cfg.Observer
	}
	tell := func(f func(onefold.RowEvent), p Point) {
		if f != nil {
			f(event)
		}
		w.reach(p)
	}
	tell(own.Fetched, Fetched)
	if r.Effect.Once {
		// As the relay does it: announced before the call, and not made again when nobody knows how it ended.
		announced := onefold.Settlement{Row: r, State: onefold.Tried}
		if r.Tried {
			announced.State, announced.Reason = onefold.Parked, "the outcome of the call is not known"
		}
		if err := w.store.Settle(ctx, []onefold.Settlement{announced}); err != nil || r.Tried {
			return err
		}
	}
	event.Duplicate = w.receive(r)
	tell(own.Published, Published)
	if err := w.store.Settle(ctx, []onefold.Settlement{{Row: r, State: onefold.Sent}}); err != nil {
		return err
	}
	tell(own.Settled, Settled)
	return nil
}

// receive is the other end. It reports whether it had the ID already.
func (w *world) receive(r onefold.Row) (duplicate bool) {
	for i := range w.sent {
		if w.sent[i].ID == r.Effect.ID {
			w.sent[i].times++
			return true
		}
	}
	w.sent = append(w.sent, sent{Effect: r.Effect, key: r.Key, times: 1})
	return false
}
