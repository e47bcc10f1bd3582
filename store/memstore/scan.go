package memstore

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"

	"github.com/onefold-go/onefold"
)

// Scan implements [onefold.Store]. It yields copies made in one step at its start, so it holds nothing
// while it yields, and may show what was removed meanwhile.
func (s *Store) Scan(ctx context.Context, q onefold.Query) iter.Seq2[onefold.Item, error] {
	return func(yield func(onefold.Item, error) bool) {
		items, err := s.snapshot(ctx, q)
		for _, item := range items {
			if err = ctx.Err(); err != nil {
				break
			}
			if !yield(item, nil) {
				return
			}
		}
		if err != nil {
			yield(onefold.Item{}, err)
		}
	}
}

// snapshot returns what q asks for, in the order of Item.After.
func (s *Store) snapshot(ctx context.Context, q onefold.Query) ([]onefold.Item, error) {
	if q.Limit < 0 {
		return nil, fmt.Errorf("%w: Query.Limit is %d; it must not be negative", onefold.ErrInvalid, q.Limit)
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	var items []onefold.Item
	switch q.What {
	case onefold.WhatRecords:
		for k, r := range s.data.records {
			if r.live(s.now()) && (q.Scope == "" || q.Scope == r.Key.Scope) {
				items = append(items, onefold.Item{After: recordMark(k), Record: r.copy()})
			}
		}
	case onefold.WhatWaiting:
		items = s.scanRows(false)
	case onefold.WhatParked:
		items = s.scanRows(true)
	case onefold.WhatAttention:
		items = s.scanRows(true)
		for k, r := range s.data.attention {
			items = append(items, onefold.Item{After: recordMark(k), Record: r.copy()})
		}
	case onefold.WhatState:
		if q.Table == "" {
			return nil, fmt.Errorf("%w: Query.Table is empty; name the table", onefold.ErrInvalid)
		}
		items = s.scanState(q.Table)
	default:
		return nil, fmt.Errorf("%w: Query.What is %q; use one of the constants", onefold.ErrInvalid, q.What)
	}
	return page(items, q), nil
}

// page sorts and cuts to what q asks for.
func page(items []onefold.Item, q onefold.Query) []onefold.Item {
	items = slices.DeleteFunc(items, func(i onefold.Item) bool { return i.After <= q.After })
	slices.SortFunc(items, func(a, b onefold.Item) int { return cmp.Compare(a.After, b.After) })
	if q.Limit > 0 && len(items) > q.Limit {
		items = items[:q.Limit]
	}
	return items
}

// Records come before rows where a scan shows both.
func recordMark(k id) string { return "record " + hex.EncodeToString(k[:]) }
func rowMark(r *row) string  { return fmt.Sprintf("row %020d", r.position) }

func (s *Store) scanRows(parked bool) (items []onefold.Item) {
	for _, r := range s.data.rows {
		if r.parked != parked {
			continue
		}
		shown := s.show(r)
		if !parked {
			shown.Handle = nil // a feed has it out; its ticket is nobody else's
		}
		items = append(items, onefold.Item{After: rowMark(r), Row: &shown, Reason: r.reason})
	}
	return items
}

func (s *Store) scanState(table string) (items []onefold.Item) {
	for k, v := range s.data.state {
		if k.table == table && s.now() < v.expires {
			data := onefold.Value{Data: slices.Clone(v.Data), Version: v.Version}
			items = append(items, onefold.Item{After: k.key, Table: k.table, Key: k.key, Value: data})
		}
	}
	return items
}
