package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onefold-go/onefold"
)

// stored returns the unexpired record of a key, or nil.
func (s *Store) stored(k id) *record {
	if r := s.data.records[k]; r != nil && r.live(s.now()) {
		return r
	}
	return nil
}

// live reports whether r still dedupes. While an effect of it is unsettled it does, whatever its age: a key
// that ran again would send beside what has not been sent yet.
func (r *record) live(now time.Duration) bool { return now < r.expires || r.Unsettled > 0 }

// copy is the record for a caller.
func (r *record) copy() *onefold.Record {
	c := r.Record
	c.Result = slices.Clone(c.Result)
	return &c
}

// value returns the unexpired value of state, or none. Its Data belongs to the store.
func (s *Store) value(table, key string) onefold.Value {
	if v, ok := s.data.state[stateKey{table, key}]; ok && s.now() < v.expires {
		return v.Value
	}
	return onefold.Value{}
}

// Read implements [onefold.Store].
func (s *Store) Read(ctx context.Context, table, key string) (onefold.Value, error) {
	if err := (onefold.Read{Table: table, Key: key}).Check(); err != nil {
		return onefold.Value{}, err
	}
	if err := s.enter(ctx); err != nil {
		return onefold.Value{}, err
	}
	defer s.leave()
	v := s.value(table, key)
	v.Data = slices.Clone(v.Data)
	return v, nil
}

// Lookup implements [onefold.Store].
func (s *Store) Lookup(ctx context.Context, k onefold.Key) (onefold.Record, error) {
	if err := s.enter(ctx); err != nil {
		return onefold.Record{}, err
	}
	defer s.leave()
	r := s.stored(idOf(k))
	if r == nil {
		return onefold.Record{}, fmt.Errorf("%w: %v", onefold.ErrNotFound, k)
	}
	return *r.copy(), nil
}

// Wait implements [onefold.Store].
func (s *Store) Wait(ctx context.Context, k onefold.Key) (onefold.Record, error) {
	if err := s.enter(ctx); err != nil {
		return onefold.Record{}, err
	}
	defer s.leave()
	r := s.stored(idOf(k))
	if r == nil {
		return onefold.Record{}, fmt.Errorf("%w: %v", onefold.ErrNotFound, k)
	}
	for r.Unsettled > 0 {
		if err := s.wait(ctx, forever); err != nil {
			return onefold.Record{}, err
		}
		if s.ended || s.closing {
			return onefold.Record{}, onefold.ErrClosed
		}
	}
	return *r.copy(), nil
}

// Erase implements [onefold.Store]. A dead letter or unknown outcome leaves the attention list. Rows are
// erased however long ago their record expired, and failures even if the key has no outcome yet.
func (s *Store) Erase(ctx context.Context, k onefold.Key) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	digest := idOf(k)
	if s.claims[digest].live(s.mono()) {
		return fmt.Errorf("%w: %v is running", onefold.ErrBusy, k)
	}
	ofKey := func(r *row) bool { return r.id == digest }
	dead := s.data.attention[digest]
	if s.stored(digest) == nil && dead == nil && s.data.history[digest] == nil && !slices.ContainsFunc(s.data.rows, ofKey) {
		return fmt.Errorf("%w: %v", onefold.ErrNotFound, k)
	}
	s.data.records[digest].erase() // an expired one, too, as long as it is here
	dead.erase()
	delete(s.data.history, digest)
	delete(s.data.attention, digest)
	s.removeRows(ofKey)
	s.stamp()
	s.notify()
	return nil
}

// erase leaves the mark alone.
func (r *record) erase() {
	if r == nil {
		return
	}
	r.Key = onefold.Key{}
	r.ResultKept = r.ResultKept && len(r.Result) == 0
	r.Result, r.Erased = nil, true
}

// Stats implements [onefold.Store].
func (s *Store) Stats(ctx context.Context) (onefold.Stats, error) {
	if err := s.enter(ctx); err != nil {
		return onefold.Stats{}, err
	}
	defer s.leave()
	now := s.now()
	s.sweep(now)
	st := onefold.Stats{
		Records: uint64(len(s.data.records)), Claims: uint64(len(s.claims)), Exact: true,
		Position: s.data.position, LastFeed: -1,
	}
	for _, r := range s.data.rows {
		switch {
		case r.parked:
			st.Parked++
			continue
		case s.untilDue(r) <= 0:
			st.OldestWaiting = max(st.OldestWaiting, now-r.stored)
		}
		st.Waiting++
	}
	st.Attention = uint64(len(s.data.attention)) + st.Parked
	switch {
	case s.asking > 0:
		st.LastFeed = 0 // a relay asks right now
	case s.lastFeed >= 0:
		st.LastFeed = max(s.mono()-s.lastFeed, time.Duration(0))
	}
	if s.full() {
		st.Err = onefold.ErrFull
	}
	return st, nil
}
