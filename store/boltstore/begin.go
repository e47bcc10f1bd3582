package boltstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/onefold-go/onefold"
)

// keyBuffer is how long a canonical key may be without costing Begin an allocation.
const keyBuffer = 256

// Begin implements [onefold.Store].
func (s *Store) Begin(ctx context.Context, r onefold.Request) (onefold.Grant, error) {
	if err := r.Check(); err != nil {
		return onefold.Grant{}, err
	}
	if err := s.enter(ctx); err != nil {
		return onefold.Grant{}, err
	}
	var buffer [keyBuffer]byte
	canon := r.Key.Append(buffer[:0])
	hash := s.hash(canon)
	st := s.stripe(hash)
	var g onefold.Grant
	var out *outside
	for {
		st.mu.Lock()
		var decided bool
		var err error
		if g, decided, err = s.decide(st, hash, canon, &r, out); decided || err != nil {
			return s.finishBegin(ctx, st, g, canon, r.Durable, err)
		}
		st.mu.Unlock()
		if out, err = s.findSealed(hash, slices.Clone(canon)); err != nil {
			return onefold.Grant{}, err
		}
	}
}

// finishBegin counts the start of a granted claim if that is asked for. The lock of st is held, and is given up.
func (s *Store) finishBegin(ctx context.Context, st *stripe, g onefold.Grant, canon []byte, durable bool, err error) (onefold.Grant, error) {
	var start *startOp
	if err == nil && durable && g.Verdict == onefold.Granted {
		start = s.countStart(st, g.Claim.Handle.(*claim), canon)
	}
	st.mu.Unlock()
	if start != nil {
		err = s.awaitStart(ctx, start, g.Claim.Handle.(*claim))
	}
	if err != nil {
		return onefold.Grant{}, err
	}
	return g, nil
}

// decide is the decision of Begin. The lock of st is held. It is not decided yet if the segment files must be
// asked first; see find.
func (s *Store) decide(st *stripe, hash uint64, canon []byte, r *onefold.Request, out *outside) (g onefold.Grant, decided bool, err error) {
	mono := s.clock.Mono()
	c := st.claim(hash, &r.Key)
	if c != nil && c.live(mono) {
		return s.meet(st, c, canon, r, mono), true, nil
	}
	found, ok, err := s.find(st, hash, canon, out)
	switch {
	case err != nil || !ok:
		return onefold.Grant{}, false, err
	case found.live:
		return s.finished(&found, r), true, nil
	}
	if err := s.freshKey(); err != nil {
		return onefold.Grant{}, false, err
	}
	token, err := s.nextToken()
	if err != nil {
		return onefold.Grant{}, false, err
	}
	if c != nil {
		st.drop(c) // its lease is over
	}
	c = s.newClaim(r, hash, token, mono)
	c.replaces, c.part, c.shelf = found.position, st.active.number, found.shelf
	st.add(c)
	return s.granted(st, c, canon), true, nil
}

// meet is the answer to a Begin that finds a live claim.
func (s *Store) meet(st *stripe, c *claim, canon []byte, r *onefold.Request, mono time.Duration) onefold.Grant {
	switch {
	case c.fingerprint.Conflicts(r.Fingerprint):
		return onefold.Grant{Verdict: onefold.Mismatch, Held: c.fingerprint}
	case c.holder == r.Holder:
		if c.state == held {
			c.lease, c.ends = r.Lease, later(mono, r.Lease)
		}
		g := s.granted(st, c, canon)
		again := c.public // the first one may be read by its holder meanwhile
		again.Lease = c.lease
		g.Claim = &again
		return g
	}
	return onefold.Grant{Verdict: onefold.Busy, RetryAfter: min(max(c.ends-mono, time.Millisecond), c.lease)}
}

// finished is the answer to a Begin that finds an outcome.
func (s *Store) finished(found *found, r *onefold.Request) onefold.Grant {
	g := onefold.Grant{Verdict: onefold.Done, Record: found.record.public(r.Key)}
	if found.record.fingerprint.Conflicts(r.Fingerprint) {
		g.Verdict, g.Held = onefold.Mismatch, found.record.fingerprint
	}
	g.Record.Unsettled = s.rows.unsettled(found.position)
	return g
}

// granted is the answer for the holder of c: its history is that of earlier attempts, without this one.
func (s *Store) granted(st *stripe, c *claim, canon []byte) onefold.Grant {
	g := onefold.Grant{Verdict: onefold.Granted, Claim: &c.public}
	if len(st.history) > 0 {
		g.History = s.historyOf(st, c, canon)
	}
	return g
}

func (s *Store) newClaim(r *onefold.Request, hash, token uint64, mono time.Duration) *claim {
	c := &claim{
		store: s, hash: hash, fingerprint: r.Fingerprint, holder: r.Holder,
		lease: r.Lease, began: mono, ends: later(mono, r.Lease),
	}
	c.public = onefold.Claim{Key: r.Key, Token: token, Lease: r.Lease, Handle: c}
	return c
}

// epochShift is where the epoch stands in a token: a trillion claims fit into one epoch, and maxEpoch of
// them into tokens.
const (
	epochShift = 40
	maxEpoch   = 1 << (64 - epochShift)
)

// nextToken returns a number that grows with each call and with each Open. It refuses to run into the
// tokens of the next epoch: those would be given out a second time.
func (s *Store) nextToken() (uint64, error) {
	n := s.tokens.Add(1)
	if n >= 1<<epochShift {
		s.tokens.Store(1 << epochShift) // or it would come round
		return 0, fmt.Errorf("%w: all %d tokens of this epoch are given out; close the store and open it again",
			onefold.ErrUnavailable, uint64(1<<epochShift-1))
	}
	return s.info.Epoch<<epochShift | n, nil
}

// later is now + d, or the end of time.
func later(now, d time.Duration) time.Duration {
	if now > 0 && d > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + d
}

// Renew implements [onefold.Store]. A claim whose lease is over may still be renewed if nobody has asked
// for its key since.
func (s *Store) Renew(ctx context.Context, c *onefold.Claim, lease time.Duration) error {
	if c == nil {
		return fmt.Errorf("%w: claim is nil", onefold.ErrInvalid)
	}
	if lease <= 0 {
		return fmt.Errorf("%w: lease is %v; it must be positive", onefold.ErrInvalid, lease)
	}
	if err := s.enter(ctx); err != nil {
		return leaseError(err)
	}
	own, st, err := s.lockClaim(c)
	if err != nil {
		return err
	}
	defer st.mu.Unlock()
	if own.state == held {
		own.lease, own.ends = lease, later(s.clock.Mono(), lease)
	}
	return nil
}

// leaseError turns an error that the methods of claims do not name into one they do: for a claim, a store
// that has stopped is one that cannot be reached.
func leaseError(err error) error {
	if errors.Is(err, onefold.ErrDamaged) {
		return fmt.Errorf("%w: %s", onefold.ErrUnavailable, err.Error())
	}
	return err
}

// lockClaim returns the claim that c stands for with its stripe locked, or ErrLost. A claim is current
// until another one was granted for its key, the key has an outcome, or the sweep has found its lease over.
func (s *Store) lockClaim(c *onefold.Claim) (*claim, *stripe, error) {
	own, ok := c.Handle.(*claim)
	if !ok || own.store != s {
		return nil, nil, lost(c)
	}
	st := s.stripe(own.hash)
	st.mu.Lock()
	if own.state == gone || own.public.Token != c.Token {
		st.mu.Unlock()
		return nil, nil, lost(c)
	}
	return own, st, nil
}

func lost(c *onefold.Claim) error {
	return fmt.Errorf("%w: claim %d of %v", onefold.ErrLost, c.Token, c.Key)
}

// Release implements [onefold.Store]. A failure that is not counted leaves no trace, and takes back the
// durable start of its attempt: a start without a failure would say that the attempt was cut short.
func (s *Store) Release(ctx context.Context, c *onefold.Claim, f onefold.Failure) error {
	if c == nil {
		return fmt.Errorf("%w: claim is nil", onefold.ErrInvalid)
	}
	if err := s.enter(ctx); err != nil {
		return leaseError(err)
	}
	own, st, err := s.lockClaim(c)
	if err != nil {
		return err
	}
	defer st.mu.Unlock()
	if own.state == committing {
		return fmt.Errorf("%w: the commit of claim %d of %v is under way", onefold.ErrBusy, c.Token, c.Key)
	}
	st.drop(own)
	s.noteRelease(st, own, f)
	return nil
}
