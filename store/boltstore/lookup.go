package boltstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/onefold-go/onefold"
)

// lookup returns the unexpired record of a key and its position. Errors: ErrNotFound, ErrDamaged.
func (s *Store) lookup(k onefold.Key) (*onefold.Record, uint64, error) {
	canon := canonOf(&k)
	hash := s.hash(canon)
	found, err := s.outcome(hash, canon)
	if err != nil {
		return nil, 0, err
	}
	if !found.live {
		return nil, 0, fmt.Errorf("%w: %v", onefold.ErrNotFound, k)
	}
	r := found.record.public(k)
	r.Unsettled = s.rows.unsettled(found.position)
	return r, found.position, nil
}

// outcome looks for the outcome of a key.
func (s *Store) outcome(hash uint64, canon []byte) (f found, err error) {
	st := s.stripe(hash)
	var out *outside
	for {
		st.mu.Lock()
		var ok bool
		f, ok, err = s.find(st, hash, canon, out)
		st.mu.Unlock()
		if ok || err != nil {
			return f, err
		}
		if out, err = s.findSealed(hash, canon); err != nil {
			return f, err
		}
	}
}

// Lookup implements [onefold.Store].
func (s *Store) Lookup(ctx context.Context, k onefold.Key) (onefold.Record, error) {
	if err := s.enter(ctx); err != nil {
		return onefold.Record{}, err
	}
	r, _, err := s.lookup(k)
	if err != nil {
		return onefold.Record{}, err
	}
	return *r, nil
}

// Wait implements [onefold.Store].
func (s *Store) Wait(ctx context.Context, k onefold.Key) (onefold.Record, error) {
	if err := s.enter(ctx); err != nil {
		return onefold.Record{}, err
	}
	r, at, err := s.lookup(k)
	if err != nil {
		return onefold.Record{}, err
	}
	if settled := s.rows.settled(at); settled != nil {
		select {
		case <-settled:
		case <-ctx.Done():
			return onefold.Record{}, ctx.Err()
		case <-s.closing:
			return onefold.Record{}, s.enter(context.Background())
		}
	}
	// Look again: the record may have been erased meanwhile, or have expired.
	if now, _, err := s.lookup(k); err == nil {
		r = now
	}
	r.Unsettled = 0
	return *r, nil
}

// Read implements [onefold.Store].
func (s *Store) Read(ctx context.Context, table, key string) (onefold.Value, error) {
	if err := (onefold.Read{Table: table, Key: key}).Check(); err != nil {
		return onefold.Value{}, err
	}
	if err := s.enter(ctx); err != nil {
		return onefold.Value{}, err
	}
	bucketKey, now := stateKey(table, key), s.now()
	var v value
	err := s.snap.read(func(b *buckets) error {
		stored, err := b.state.get(bucketKey)
		if stored == nil || err != nil {
			return err
		}
		if v, err = parseValue(stored); err != nil {
			return unreadable(err, "state %q/%q", table, key)
		}
		v.data = slices.Clone(v.data)
		return nil
	})
	if err != nil || !v.live(now) {
		return onefold.Value{}, err
	}
	return onefold.Value{Data: v.data, Version: v.version}, nil
}
