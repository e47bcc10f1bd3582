package boltstore

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"
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
	part  onefold.What // what is walked over now: what needs a person is in two places
	after []byte       // bucket key of the last entry looked at; nil: none yet
	done  bool
}

// The marks of what needs a person. Records come before rows.
const (
	recordMark = "record "
	rowMark    = "row "
)

func (s *Store) newWalk(q onefold.Query) (*walk, error) {
	w := &walk{store: s, query: q, part: q.What}
	if q.Limit < 0 {
		return nil, fmt.Errorf("%w: Query.Limit is %d; it must not be negative", onefold.ErrInvalid, q.Limit)
	}
	switch q.What {
	case onefold.WhatRecords, onefold.WhatWaiting, onefold.WhatParked, onefold.WhatAttention:
	case onefold.WhatState:
		if q.Table == "" {
			return nil, fmt.Errorf("%w: Query.Table is empty; name the table", onefold.ErrInvalid)
		}
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
	text := q.After
	if q.What == onefold.WhatAttention {
		var ok bool
		if text, ok = strings.CutPrefix(q.After, rowMark); ok {
			w.part = onefold.WhatParked
		} else {
			text = strings.TrimPrefix(q.After, recordMark)
		}
	}
	at, err := hex.DecodeString(text)
	if err != nil || len(at) != 8 {
		return nil, fmt.Errorf("%w: Query.After is %q; use the After of an Item of the same kind", onefold.ErrInvalid, q.After)
	}
	w.after = at
	return w, nil
}

// step returns what is found among the next entries.
func (w *walk) step() (items []onefold.Item, err error) {
	now := w.store.now()
	if w.query.What == onefold.WhatRecords {
		return w.stepRecords(now)
	}
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
	w.complete(items)
	if w.done && w.part == onefold.WhatAttention {
		w.part, w.after, w.done = onefold.WhatParked, nil, false
	}
	return items, err
}

// mark is the After of an item with this bucket key.
func (w *walk) mark(key []byte) string {
	switch text := hex.EncodeToString(key); {
	case w.query.What != onefold.WhatAttention:
		return text
	case w.part == onefold.WhatAttention:
		return recordMark + text
	default:
		return rowMark + text
	}
}

func (w *walk) bucket(b *buckets) *bucket {
	switch w.part {
	case onefold.WhatWaiting:
		return &b.rows
	case onefold.WhatParked:
		return &b.parked
	case onefold.WhatAttention:
		return &b.attention
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
	switch w.part {
	case onefold.WhatAttention:
		r, err := parseRecord(stored)
		return onefold.Item{After: w.mark(key), Record: r.public(onefold.Key{})}, err == nil, err
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
	return onefold.Item{After: w.mark(key), Row: shown, Reason: r.reason}, true, nil
}

// complete adds what only memory knows.
func (s *Store) complete(item *onefold.Item) {
	if item.Record == nil && item.Row == nil {
		return
	}
	b, err := hex.DecodeString(item.After[strings.LastIndexByte(item.After, ' ')+1:])
	if err != nil || len(b) != 8 {
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
