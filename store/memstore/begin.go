package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
)

// claim is the right to run a key. It is held, or its commit is under way (committing > 0), or gone.
type claim struct {
	token       uint64
	holder      onefold.Holder
	fingerprint onefold.Fingerprint
	lease       time.Duration
	ends        time.Duration // monotonic
	begun       time.Time     // wall clock
	durable     bool          // its start is in the history
	committing  int           // commits of it that are accepted and not yet written
	earlier     onefold.History
}

// live reports whether nobody else may have the key. A claim whose commit is under way does not end.
func (c *claim) live(mono time.Duration) bool {
	return c != nil && (c.committing > 0 || mono < c.ends)
}

// Begin implements [onefold.Store].
func (s *Store) Begin(ctx context.Context, r onefold.Request) (onefold.Grant, error) {
	if err := r.Check(); err != nil {
		return onefold.Grant{}, err
	}
	if err := s.enter(ctx); err != nil {
		return onefold.Grant{}, err
	}
	defer s.leave()
	k, mono := idOf(r.Key), s.mono()
	stored, holder := s.stored(k), s.claims[k]
	switch {
	case stored != nil && stored.Fingerprint.Conflicts(r.Fingerprint):
		return onefold.Grant{Verdict: onefold.Mismatch, Record: stored.copy(), Held: stored.Fingerprint}, nil
	case holder.live(mono) && holder.fingerprint.Conflicts(r.Fingerprint):
		return onefold.Grant{Verdict: onefold.Mismatch, Held: holder.fingerprint}, nil
	case stored != nil:
		return onefold.Grant{Verdict: onefold.Done, Record: stored.copy()}, nil
	case holder.live(mono) && holder.holder == r.Holder:
		holder.lease, holder.ends = r.Lease, later(mono, r.Lease)
		if r.Durable && !holder.durable {
			s.countStart(k, holder)
		}
		return granted(r.Key, holder), nil
	case holder.live(mono):
		after := min(max(holder.ends-mono, time.Millisecond), holder.lease)
		return onefold.Grant{Verdict: onefold.Busy, RetryAfter: after}, nil
	}
	if holder == nil && s.full() {
		return onefold.Grant{}, fmt.Errorf("%w: %d records and claims; they end with their retention", onefold.ErrFull, s.options.MaxRecords)
	}
	return s.grant(k, r), nil
}

// grant makes a new claim, whatever claim the key had before.
func (s *Store) grant(k id, r onefold.Request) onefold.Grant {
	c := &claim{
		token: s.number(), holder: r.Holder, fingerprint: r.Fingerprint, lease: r.Lease,
		ends: later(s.mono(), r.Lease), begun: s.options.Clock.Wall(),
	}
	s.claims[k] = c
	if h := s.data.history[k]; h != nil {
		c.earlier = h.History
	}
	if r.Durable {
		s.countStart(k, c)
	}
	return granted(r.Key, c)
}

// countStart counts the start of c's attempt. Attempts that failed without one count as started too, so that only
// those that were cut short make the difference.
func (s *Store) countStart(k id, c *claim) {
	h := s.remember(k, c)
	h.Starts = max(h.Starts, h.Failures) + 1
	c.durable = true
	s.stamp()
}

// granted is the answer for the holder of c.
func granted(key onefold.Key, c *claim) onefold.Grant {
	return onefold.Grant{
		Verdict: onefold.Granted,
		Claim:   &onefold.Claim{Key: key, Token: c.token, Lease: c.lease},
		History: c.earlier,
	}
}

// remember returns the history of k to add to it, making one if there is none.
func (s *Store) remember(k id, c *claim) *history {
	h := s.data.history[k]
	if h == nil {
		h = &history{History: onefold.History{First: c.begun}}
		s.data.history[k] = h
	}
	h.touched = s.now()
	return h
}

// full reports whether there is no room for a fresh key. A claim keeps the place of its record, so that
// a commit with a claim always finds room.
func (s *Store) full() bool {
	limit := s.options.MaxRecords
	if limit == 0 || len(s.data.records)+len(s.claims) < limit {
		return false
	}
	s.sweep(s.now())
	return len(s.data.records)+len(s.claims) >= limit
}

// current returns the claim that c stands for, or ErrLost. A claim is current until another one was
// granted for its key, the key has an outcome, or the sweep has found its lease ended.
func (s *Store) current(c *onefold.Claim) (*claim, error) {
	held := s.claims[idOf(c.Key)]
	if held == nil || held.token != c.Token {
		return nil, fmt.Errorf("%w: claim %d of %v", onefold.ErrLost, c.Token, c.Key)
	}
	return held, nil
}

// Renew implements [onefold.Store].
func (s *Store) Renew(ctx context.Context, c *onefold.Claim, lease time.Duration) error {
	if c == nil {
		return fmt.Errorf("%w: claim is nil", onefold.ErrInvalid)
	}
	if lease <= 0 {
		return fmt.Errorf("%w: lease is %v; it must be positive", onefold.ErrInvalid, lease)
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	held, err := s.current(c)
	if err != nil {
		return err
	}
	if held.committing == 0 {
		held.lease, held.ends = lease, later(s.mono(), lease)
	}
	return nil
}

// Release implements [onefold.Store]. A failure that is not counted leaves no trace, and takes back the
// durable start of its attempt: a start without a failure would say that the attempt was cut short.
func (s *Store) Release(ctx context.Context, c *onefold.Claim, f onefold.Failure) error {
	if c == nil {
		return fmt.Errorf("%w: claim is nil", onefold.ErrInvalid)
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	held, err := s.current(c)
	if err != nil {
		return err
	}
	if held.committing > 0 {
		return fmt.Errorf("%w: the commit of claim %d of %v is under way", onefold.ErrBusy, c.Token, c.Key)
	}
	k := idOf(c.Key)
	delete(s.claims, k)
	switch {
	case f.Counted:
		h := s.remember(k, held)
		h.Failures++
		h.LastReason = onefold.TruncateReason(f.Reason)
	case held.durable:
		s.forgetStart(k)
	}
	s.stamp()
	return nil
}

// forgetStart takes back one durable start of a key.
func (s *Store) forgetStart(k id) {
	h := s.data.history[k]
	if h == nil {
		return
	}
	h.Starts--
	if h.Starts == 0 && h.Failures == 0 {
		delete(s.data.history, k)
	}
}
