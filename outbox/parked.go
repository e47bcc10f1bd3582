package outbox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/onefold-go/onefold"
)

// Choice says which parked rows are meant: those that fit every field that is set. The zero Choice is all of them.
type Choice struct {
	IDs    []string    // the IDs of effects, as events tell them (onefold.Row.LeavesAs); one of them
	Key    onefold.Key // the work that has asked for the row
	Kind   string      // onefold.KindMessage, onefold.KindCall
	Target string      // subject or name of a function
	Reason string      // part of the reason that the row is parked for
}

// fits reports whether c means a parked row.
func (c *Choice) fits(item *onefold.Item) bool {
	row := item.Row
	return row != nil &&
		(len(c.IDs) == 0 || slices.Contains(c.IDs, row.Effect.ID)) &&
		(c.Key.IsZero() || c.Key == row.Key) &&
		(c.Kind == "" || c.Kind == row.Effect.Kind) &&
		(c.Target == "" || c.Target == row.Effect.Target) &&
		strings.Contains(item.Reason, c.Reason)
}

// Parked lists the parked rows that c means, each with the reason it is parked for. A row whose Tried is set is a call
// that is to be made at most once and may have happened. Breaking off is allowed, and resuming or discarding meanwhile.
// Errors: those of [onefold.Store] for Scan; one ends the sequence.
func Parked(ctx context.Context, st onefold.Store, c Choice) iter.Seq2[onefold.Item, error] {
	return func(yield func(onefold.Item, error) bool) {
		for item, err := range st.Scan(ctx, onefold.Query{What: onefold.WhatParked}) {
			if err != nil {
				yield(onefold.Item{}, fmt.Errorf("list parked rows: %w", err))
				return
			}
			if item.Row != nil {
				row := *item.Row
				row.Effect.ID = row.LeavesAs() // which events and logs name, too
				item.Row = &row
			}
			if c.fits(&item) && !yield(item, nil) {
				return
			}
		}
	}
}

// Resume lets a relay carry out again the parked rows that c means, and returns how many. Their attempts go on from
// where they were: a row that was given up has one more try each time. reason, which must not be empty, is kept with
// the row until its next end, and told to o.RowResumed; o may be nil.
//
// A call that may have happened already (Row.Tried) is made once more by this. It is resumed only if c.IDs names it,
// so that a sweep over many rows never does.
//
// Doing it twice is harmless. A row that somebody else has settled meanwhile is not counted. After an error the rows
// counted are resumed, and the rest may be: call it again.
//
// Errors: [onefold.ErrInvalid] (no store, no reason), and those of [onefold.Store] for Scan and Settle.
func Resume(ctx context.Context, st onefold.Store, c Choice, reason string, o *onefold.Observer) (int, error) {
	d := desk{store: st, state: onefold.Delayed, reason: reason, verb: "resume"}
	if o != nil {
		d.told = o.RowResumed
	}
	return d.settle(ctx, c, func(row *onefold.Row) bool { return !row.Tried || len(c.IDs) > 0 })
}

// Discard gives up the parked rows that c means, and returns how many: they are never carried out, and what they held
// up goes on. reason, which must not be empty, is told to o.RowDiscarded together with the row; nothing of it stays
// in the store, so give an Observer that keeps what you want to know later. o may be nil.
//
// Repeats, errors and what is counted are as in [Resume].
func Discard(ctx context.Context, st onefold.Store, c Choice, reason string, o *onefold.Observer) (int, error) {
	d := desk{store: st, state: onefold.Discarded, reason: reason, verb: "discard"}
	if o != nil {
		d.told = o.RowDiscarded
	}
	return d.settle(ctx, c, func(*onefold.Row) bool { return true })
}

// deskBatch is how many rows one settlement takes.
const deskBatch = 256

// desk is one decision of a person about parked rows.
type desk struct {
	store  onefold.Store
	state  onefold.State
	reason string
	verb   string
	told   func(onefold.RowEvent) // may be nil

	settled int
}

// settle goes through the rows that c means and may be settled.
func (d *desk) settle(ctx context.Context, c Choice, may func(*onefold.Row) bool) (int, error) {
	if err := d.check(); err != nil {
		return 0, err
	}
	var batch []onefold.Settlement
	for item, err := range Parked(ctx, d.store, c) {
		if err != nil {
			return d.settled, fmt.Errorf("%s: %w", d.verb, err)
		}
		if item.Row.Handle == nil || !may(item.Row) {
			continue // without a handle: settled between the scan's look and now
		}
		batch = append(batch, onefold.Settlement{Row: *item.Row, State: d.state, Reason: d.reason})
		if len(batch) < deskBatch {
			continue
		}
		if err := d.record(ctx, batch); err != nil {
			return d.settled, err
		}
		batch = nil
	}
	return d.settled, d.record(ctx, batch)
}

func (d *desk) check() error {
	switch {
	case d.store == nil:
		return fmt.Errorf("%w: %s parked rows: the store is nil; open one first", onefold.ErrInvalid, d.verb)
	case strings.TrimSpace(d.reason) == "":
		return fmt.Errorf("%w: %s parked rows: the reason is empty; say why, for whoever reads it later", onefold.ErrInvalid, d.verb)
	}
	return nil
}

// record settles a batch. If some row in it is not parked any more, each is settled by itself, which changes nothing
// about those that are done.
func (d *desk) record(ctx context.Context, batch []onefold.Settlement) error {
	if len(batch) == 0 {
		return nil
	}
	err := settleUntilKnown(ctx, d.store, batch, func(error) {})
	if errors.Is(err, onefold.ErrLost) && len(batch) > 1 {
		for i := range batch {
			if err := d.record(ctx, batch[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	if errors.Is(err, onefold.ErrLost) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.verb, err)
	}
	d.settled += len(batch)
	for i := range batch {
		d.report(&batch[i].Row)
	}
	return nil
}

func (d *desk) report(row *onefold.Row) {
	if d.told == nil {
		return
	}
	e := eventOf(row)
	e.At, e.Reason = onefold.Clock{}.OrSystem().Wall(), d.reason
	d.told(e)
}
