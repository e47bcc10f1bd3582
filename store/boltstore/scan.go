package boltstore

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/onefold-go/onefold"
)

// scanStep is how many entries of a bucket one step of Scan looks at.
const scanStep = 64

// Scan implements [onefold.Store]. It goes through a bucket in its order, in steps that each copy some
// entries out of the read snapshot of that moment.
func (s *Store) Scan(ctx context.Context, q onefold.Query) iter.Seq2[onefold.Item, error] {
	return func(yield func(onefold.Item, error) bool) {
		w, err := s.newWalk(q)
		left := q.Limit
		for err == nil && !w.done {
			if err = s.enter(ctx); err != nil {
				break
			}
			var items []onefold.Item
			if items, err = w.step(); err != nil {
				break
			}
			for _, item := range items {
				if err = ctx.Err(); err != nil {
					break
				}
				if !yield(item, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
		}
		if err != nil {
			yield(onefold.Item{}, err)
		}
	}
}

// walk is a Scan under way.
type walk struct {
	store *Store
	query onefold.Query
	after []byte // bucket key of the last entry looked at; nil: none yet
	done  bool
}

func (s *Store) newWalk(q onefold.Query) (*walk, error) {
	w := &walk{store: s, query: q}
	if q.Limit < 0 {
		return nil, fmt.Errorf("%w: Query.Limit is %d; it must not be negative", onefold.ErrInvalid, q.Limit)
	}
	switch q.What {
	case onefold.WhatRecords, onefold.WhatWaiting, onefold.WhatParked:
	case onefold.WhatState:
		if q.Table == "" {
			return nil, fmt.Errorf("%w: Query.Table is empty; name the table", onefold.ErrInvalid)
		}
	case onefold.WhatAttention:
		return nil, fmt.Errorf("%w: scan of %q: this version of the store keeps no such list; scan %q and %q",
			onefold.ErrUnsupported, q.What, onefold.WhatRecords, onefold.WhatParked)
	default:
		return nil, fmt.Errorf("%w: Query.What is %q; use one of the constants", onefold.ErrInvalid, q.What)
	}
	if q.After == "" {
		return w, nil
	}
	if q.What == onefold.WhatState {
		w.after = stateKey(q.Table, q.After)
		return w, nil
	}
	at, err := hex.DecodeString(q.After)
	if err != nil || len(at) != 8 {
		return nil, fmt.Errorf("%w: Query.After is %q; use the After of an Item of the same kind", onefold.ErrInvalid, q.After)
	}
	w.after = at
	return w, nil
}

// step returns what is found among the next entries.
func (w *walk) step() (items []onefold.Item, err error) {
	now := w.store.now()
	err = w.store.snap.read(func(b *buckets) error {
		return w.walk(w.bucket(b), func(key, stored []byte) error {
			item, ok, err := w.item(key, stored, now)
			if err != nil {
				return unreadable(err, "%s %x", w.query.What, key)
			}
			if ok {
				items = append(items, item)
			}
			return nil
		})
	})
	for i := range items {
		w.store.complete(&items[i])
	}
	return items, err
}

func (w *walk) bucket(b *buckets) *bucket {
	switch w.query.What {
	case onefold.WhatRecords:
		return &b.segment
	case onefold.WhatWaiting:
		return &b.rows
	case onefold.WhatParked:
		return &b.parked
	}
	return &b.state
}

// walk visits the next entries of the bucket.
func (w *walk) walk(bucket *bucket, visit func(key, stored []byte) error) error {
	cursor := bucket.cursor()
	var prefix []byte
	if w.query.What == onefold.WhatState {
		prefix = appendText(nil, w.query.Table)
	}
	start := w.after
	if start == nil {
		start = prefix
	}
	key, stored := cursor.Seek(start)
	if w.after != nil && bytes.Equal(key, w.after) {
		key, stored = cursor.Next()
	}
	for n := 0; n < scanStep; n++ {
		if key == nil || !bytes.HasPrefix(key, prefix) {
			w.done = true
			return nil
		}
		value, err := bucket.check(key, stored)
		if err != nil {
			return err
		}
		if err := visit(key, value); err != nil {
			return err
		}
		w.after = slices.Clone(key)
		key, stored = cursor.Next()
	}
	return nil
}

// item turns one stored entry into an item. ok is false if the query does not ask for it.
func (w *walk) item(key, stored []byte, now time.Duration) (item onefold.Item, ok bool, err error) {
	switch w.query.What {
	case onefold.WhatRecords:
		r, err := parseRecord(stored)
		if err != nil {
			return item, false, err
		}
		if at, err := parsePosition(key); err != nil || !w.store.alive(at, r.expires, now) {
			return item, false, err
		}
		p := r.public(onefold.Key{})
		if w.query.Scope != "" && p.Key.Scope != w.query.Scope {
			return item, false, nil
		}
		return onefold.Item{After: hex.EncodeToString(key), Record: p}, true, nil
	case onefold.WhatState:
		v, err := parseValue(stored)
		if err != nil || !v.live(now) {
			return item, false, err
		}
		_, name, err := parseStateKey(key)
		data := onefold.Value{Data: slices.Clone(v.data), Version: v.version}
		return onefold.Item{After: name, Table: w.query.Table, Key: name, Value: data}, true, err
	}
	r, err := parseRow(stored)
	if err != nil {
		return item, false, err
	}
	shown := &onefold.Row{Key: r.key, Effect: r.effect, Attempt: int(r.attempts), Tried: r.flags&rowTried != 0}
	return onefold.Item{After: hex.EncodeToString(key), Row: shown, Reason: r.reason}, true, nil
}

// complete adds what only memory knows.
func (s *Store) complete(item *onefold.Item) {
	b, err := hex.DecodeString(item.After)
	if err != nil || len(b) != 8 || item.Table != "" {
		return
	}
	at, _ := parsePosition(b)
	if item.Record != nil {
		item.Record.Unsettled = s.rows.unsettled(at)
		return
	}
	s.rows.mu.Lock()
	defer s.rows.mu.Unlock()
	if r := s.rows.refs[at]; r != nil {
		item.Row.Attempt, item.Row.Tried = int(r.attempts), r.tried
		if r.parked {
			item.Row.Handle = ticket{s, at, r.ticket}
		}
	}
}
