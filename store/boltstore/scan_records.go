package boltstore

import (
	"encoding/hex"
	"time"

	"github.com/onefold-go/onefold"
)

// stepRecords returns what is found among the next records: those of segment files first, in the order of
// their positions, then those of the journal.
func (w *walk) stepRecords(now time.Duration) (items []onefold.Item, err error) {
	from := uint64(0)
	if w.after != nil {
		after, _ := parsePosition(w.after)
		from = after + 1
	}
	visit := func(at uint64, stored []byte) error {
		w.after = position(at)
		item, ok, err := w.record(at, stored, now)
		if ok {
			items = append(items, item)
		}
		return err
	}
	s := w.store
	shelf := s.shelves.use()
	defer s.shelves.done(shelf)
	for _, f := range shelf.segments {
		if f.head.End <= from {
			continue
		}
		// A block may have no record behind from: then only the position moves on.
		next, err := f.From(from, visit)
		if err == nil {
			w.after = position(next - 1)
		}
		w.complete(items)
		return items, err
	}
	err = s.snap.read(func(b *buckets) error { return w.walkJournal(b, from, visit) })
	if err == nil && s.shelves.present.Load() != shelf {
		// A segment may have been sealed and left the journal in between: look again.
		items, w.after, w.done = nil, nil, false
		if from > 0 {
			w.after = position(from - 1)
		}
	}
	w.complete(items)
	return items, err
}

// walkJournal visits the next records of the journal.
func (w *walk) walkJournal(b *buckets, from uint64, visit func(at uint64, stored []byte) error) error {
	if err := b.journal.list(); err != nil {
		return err
	}
	n := 0
	for i, p := range b.journal.pieces {
		if i+1 < len(b.journal.pieces) && b.journal.pieces[i+1].first <= from {
			continue
		}
		bucket, err := b.journal.piece(p.first)
		if err != nil {
			return err
		}
		cursor := bucket.cursor()
		for key, stored := cursor.Seek(position(from)); key != nil; key, stored = cursor.Next() {
			if n == scanStep {
				return nil
			}
			n++
			record, err := bucket.check(key, stored)
			if err != nil {
				return err
			}
			at, err := parsePosition(key)
			if err == nil {
				err = visit(at, record)
			}
			if err != nil {
				return unreadable(err, "record %x", key)
			}
		}
	}
	w.done = true
	return nil
}

// record turns a stored record into an item. ok is false if it does not count or the query does not ask for it.
func (w *walk) record(at uint64, stored []byte, now time.Duration) (item onefold.Item, ok bool, err error) {
	if mark := w.store.marks.of(at); mark != nil {
		stored = mark
	}
	r, err := parseRecord(stored)
	if err != nil {
		return item, false, unreadable(err, "record %d", at)
	}
	if !w.store.alive(at, r.expires, now) {
		return item, false, nil
	}
	p := r.public(onefold.Key{})
	if w.query.Scope != "" && p.Key.Scope != w.query.Scope {
		return item, false, nil
	}
	return onefold.Item{After: hex.EncodeToString(position(at)), Record: p}, true, nil
}

func (w *walk) complete(items []onefold.Item) {
	for i := range items {
		w.store.complete(&items[i])
	}
}
