package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/onefold-go/onefold"
)

// Settle implements [onefold.Store]. All settlements are recorded in one step.
func (s *Store) Settle(ctx context.Context, all []onefold.Settlement) error {
	for i := range all {
		if err := s.checkSettlement(&all[i]); err != nil {
			return fmt.Errorf("settlement %d: %w", i, err)
		}
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	var lost error
	ended := map[uint64]bool{}
	for i := range all {
		if err := s.settle(&all[i], ended); err != nil && lost == nil {
			lost = err
		}
	}
	if len(ended) > 0 {
		s.removeRows(func(r *row) bool { return ended[r.position] })
	}
	s.stamp()
	s.notify()
	return lost
}

// checkSettlement refuses what is not a settlement of a row of this data.
func (s *Store) checkSettlement(one *onefold.Settlement) error {
	if err := one.Check(); err != nil {
		return err
	}
	if t, ok := one.Row.Handle.(ticket); !ok || t.data != s.info.ID {
		return fmt.Errorf("%w: Row.Handle is of another store than %s; settle rows where they came from", onefold.ErrInvalid, s.info.ID)
	}
	return nil
}

// settle records what became of one row. Rows that end are noted in ended.
func (s *Store) settle(one *onefold.Settlement, ended map[uint64]bool) error {
	t := one.Row.Handle.(ticket)
	final := one.State == onefold.Sent || one.State == onefold.Discarded
	r := s.rowAt(t.position)
	switch {
	case r == nil || ended[t.position]:
		if final {
			return nil // it has ended before, one way or the other
		}
		return fmt.Errorf("%w: row %s has ended", onefold.ErrLost, one.Row.Effect.ID)
	case t.hold == r.settledHold && one.State == r.settledState:
		return nil // this very settlement, repeated
	case t.hold != r.hold || r.feed != nil && !r.feed.live():
		return fmt.Errorf("%w: row %s is not held any more", onefold.ErrLost, one.Row.Effect.ID)
	case r.parked && one.State == onefold.Tried:
		return fmt.Errorf("%w: row %s is parked and cannot be tried", onefold.ErrInvalid, one.Row.Effect.ID)
	}
	if r.feed != nil {
		r.feed.asked = s.mono()
	}
	if final {
		ended[t.position] = true
		return nil
	}
	s.keep(r, one)
	return nil
}

// keep records a settlement after which the row stays.
func (s *Store) keep(r *row, one *onefold.Settlement) {
	if one.State == onefold.Tried {
		r.tried = true // and stays out
		return
	}
	r.settledHold, r.settledState = r.hold, one.State
	r.hold, r.feed = 0, nil
	r.reason = onefold.TruncateReason(one.Reason)
	r.parked = one.State == onefold.Parked
	if r.parked {
		r.hold, r.keepsOrder, r.tried = s.number(), one.Hold, r.tried && !one.Untried
		return
	}
	r.tried = false
	r.delayedTo, r.delayedFor = one.At, 0
	if !one.At.IsZero() {
		r.delayedFor = later(s.now(), max(one.At.Sub(s.options.Clock.Wall()), 0))
	}
	if one.Uncounted {
		r.attempts--
	}
}

// rowAt finds the row with a position, or nil if it has ended.
func (s *Store) rowAt(position uint64) *row {
	i, ok := slices.BinarySearchFunc(s.data.rows, position, func(r *row, p uint64) int {
		switch {
		case r.position < p:
			return -1
		case r.position > p:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return s.data.rows[i]
}
