package memstore

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/onefold-go/onefold"
)

// Commit implements [onefold.Store]. It has two parts: entries are accepted, from when on their claims
// cannot end, and then all are written, each for itself, in one critical section.
func (s *Store) Commit(ctx context.Context, batch []*onefold.Commit) error {
	for i, c := range batch {
		if c == nil {
			return fmt.Errorf("%w: entry %d of the batch is nil", onefold.ErrInvalid, i)
		}
	}
	accepted, err := s.accept(ctx, batch)
	if err != nil {
		return err
	}
	if s.options.BeforeWrite != nil {
		s.options.BeforeWrite()
	}
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	s.inFlight--
	defer s.notify()
	if s.ended {
		return onefold.ErrClosed // cut off: nothing of the batch was written
	}
	for i, c := range batch {
		if c.Err == nil {
			c.Existing, c.Err = s.write(c)
		}
		if accepted[i] != nil {
			s.land(accepted[i])
		}
	}
	s.stamp()
	return nil
}

// land ends the flight of a commit. If nothing was stored its claim is still held, for a fresh lease: the
// old one may have ended meanwhile.
func (s *Store) land(c *claim) {
	c.committing--
	c.ends = later(s.mono(), c.lease)
}

// accept checks the entries and freezes their claims.
func (s *Store) accept(ctx context.Context, batch []*onefold.Commit) ([]*claim, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	accepted := make([]*claim, len(batch))
	for i, c := range batch {
		c.Existing, c.Err = nil, s.check(c)
		if c.Err != nil || c.Claim == nil {
			continue
		}
		if held, err := s.current(c.Claim); err == nil {
			held.committing++
			accepted[i] = held
		}
	}
	s.inFlight++
	return accepted, nil
}

// check refuses an entry that can never be stored here: this store has no joins of its own.
func (s *Store) check(c *onefold.Commit) error {
	if err := c.Check(s.info); err != nil {
		return err
	}
	if len(c.Entry.Joins) > 0 {
		return fmt.Errorf("%w: Entry.Joins[0]: a memory store takes none; write state with Entry.Writes", onefold.ErrUnsupported)
	}
	return nil
}

// write stores one entry, all of it or nothing. It looks at the records itself, whatever the claim says.
func (s *Store) write(c *onefold.Commit) (*onefold.Record, error) {
	e := &c.Entry
	if e.Key.IsZero() {
		if err := s.checkReads(e); err != nil {
			return nil, err
		}
		s.writeState(e)
		return nil, nil
	}
	k := idOf(e.Key)
	token, existing, err := s.mayWrite(k, c)
	if existing != nil || err != nil {
		return existing, err
	}
	if err := s.checkReads(e); err != nil {
		return nil, err
	}
	s.writeState(e)
	s.writeRecord(k, token, e)
	delete(s.claims, k)
	return nil, nil
}

// mayWrite decides by key and claim: the token to write under, or the record that is there already, or
// the reason against.
func (s *Store) mayWrite(k id, c *onefold.Commit) (token uint64, existing *onefold.Record, err error) {
	if c.Claim != nil {
		if r := s.data.records[k]; r != nil && r.Token == c.Claim.Token {
			return 0, r.copy(), nil // this very commit, repeated
		}
		if s.stored(k) != nil {
			return 0, nil, fmt.Errorf("%w: %v has an outcome", onefold.ErrLost, c.Claim.Key)
		}
		_, err := s.current(c.Claim)
		return c.Claim.Token, nil, err
	}
	fingerprint, holder := c.Entry.Fingerprint, s.claims[k]
	stored := s.stored(k)
	switch {
	case stored != nil && stored.Fingerprint.Conflicts(fingerprint),
		holder.live(s.mono()) && holder.fingerprint.Conflicts(fingerprint):
		return 0, nil, fmt.Errorf("%w: %v", onefold.ErrMismatch, c.Entry.Key)
	case stored != nil:
		return 0, stored.copy(), nil
	case holder.live(s.mono()):
		return 0, nil, fmt.Errorf("%w: %v is running", onefold.ErrBusy, c.Entry.Key)
	case holder == nil && s.full():
		return 0, nil, fmt.Errorf("%w: %d records and claims", onefold.ErrFull, s.options.MaxRecords)
	}
	return s.number(), nil, nil
}

// checkReads compares the versions that the entry was computed from with the present ones, which earlier
// entries of the batch may have moved.
func (s *Store) checkReads(e *onefold.Entry) error {
	for _, r := range e.Reads {
		if now := s.value(r.Table, r.Key).Version; now != r.Version {
			return fmt.Errorf("%w: state %q/%q has version %d, read was %d", onefold.ErrConflict, r.Table, r.Key, now, r.Version)
		}
	}
	return nil
}

// writeState applies the writes. A version is a position, so none is ever used twice.
func (s *Store) writeState(e *onefold.Entry) {
	for _, w := range e.Writes {
		k := stateKey{w.Table, w.Key}
		if w.Delete {
			delete(s.data.state, k)
			continue
		}
		v := value{Value: onefold.Value{Data: slices.Clone(w.Value), Version: s.data.next()}, expires: math.MaxInt64}
		if w.Retain > 0 {
			v.expires = later(s.now(), w.Retain)
		}
		s.data.state[k] = v
	}
}

// writeRecord stores the outcome and appends the effects.
func (s *Store) writeRecord(k id, token uint64, e *onefold.Entry) {
	s.data.next()
	r := &record{
		Record: onefold.Record{
			Key: e.Key, Fingerprint: e.Fingerprint, Outcome: e.Outcome,
			Result: slices.Clone(e.Result), ResultKept: true,
			Token: token, At: s.options.Clock.Wall(),
		},
		expires: later(s.now(), e.Retain),
	}
	s.data.records[k] = r
	s.data.longest = max(s.data.longest, e.Retain)
	delete(s.data.history, k)
	delete(s.data.attention, k)
	if e.Outcome != onefold.Succeeded {
		s.data.attention[k] = r
	}
	for _, f := range e.Effects {
		if f.Timer != "" {
			s.removeRows(func(o *row) bool { return o.effect.Timer != "" && o.effect.ID == f.ID })
			if f.Cancel {
				continue
			}
		}
		r.Unsettled++
		s.data.rows = append(s.data.rows, &row{
			position: s.data.next(), owner: r, id: k, key: e.Key, effect: copyEffect(f), stored: s.now(),
		})
	}
}

// removeRows ends the rows that match.
func (s *Store) removeRows(match func(*row) bool) {
	s.data.rows = slices.DeleteFunc(s.data.rows, func(r *row) bool {
		if !match(r) {
			return false
		}
		r.owner.Unsettled--
		return true
	})
}

func copyEffect(f onefold.Effect) onefold.Effect {
	f.Payload = slices.Clone(f.Payload)
	f.Header = maps.Clone(f.Header)
	for name, values := range f.Header {
		f.Header[name] = slices.Clone(values)
	}
	return f
}
