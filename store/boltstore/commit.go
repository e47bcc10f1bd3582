package boltstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/onefold-go/onefold"
)

// Commit implements [onefold.Store]. It checks and encodes the entries here, freezes their claims and
// hands them to the writer as one op.
func (s *Store) Commit(ctx context.Context, batch []*onefold.Commit) error {
	for i, c := range batch {
		if c == nil {
			return fmt.Errorf("%w: entry %d of the batch is nil", onefold.ErrInvalid, i)
		}
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	own, others := s.accept(batch)
	for op := own; op != nil; op = op.next {
		if err := s.queue.add(op); err != nil {
			op.finish(err)
		}
	}
	for op := own; op != nil; op = op.next {
		if err := op.answered.wait(ctx); err != nil {
			op.answerUnknown(batch, err)
		} else {
			op.answer(batch)
		}
	}
	for _, f := range others {
		s.follow(ctx, f)
	}
	return nil
}

// commitOp is one call of Commit on its way, or a part of it: each entry with joins begins one of its own, so
// that it can be put off together with what follows it in the batch.
type commitOp struct {
	answered answer
	flights  []flight
	load     load
	next     *commitOp // of the same call
	alone    bool      // shares its group with no other op that has joins
}

// flight is one entry on its way.
type flight struct {
	op      *commitOp
	index   int // in the caller's batch
	claim   *claim
	encoded encoded

	// The writer's part.
	elsewhere []uint64 // positions in the journal whose records may be of the same key
	sealed    *outside // what the segment files say; nil: nothing
	unread    error    // why what they say could not be read
	history   *history
	calmed    []uint64 // positions of what needed a person and does not any more
	position  uint64

	// Valid when the op is done.
	err      error
	existing *onefold.Record
}

// follower is an entry that waits for another flight of its key.
type follower struct {
	commit *onefold.Commit
	flight *flight
	own    bool // the flight is of the same claim
}

// accept decides about each entry of a batch: refuse it, let it fly, or let it wait for a flight that is
// under way. It returns the first of the ops that fly.
func (s *Store) accept(batch []*onefold.Commit) (*commitOp, []follower) {
	first := &commitOp{answered: newAnswer()}
	last, flights := first, make([]flight, len(batch))
	begin, n := 0, 0 // of the flights: where those of the last op begin, and how many there are
	var others []follower
	for i, c := range batch {
		if len(c.Entry.Joins) > 0 && n > begin {
			last.next = &commitOp{answered: newAnswer(), load: load{joins: 1}}
			last, begin = last.next, n
		}
		f := &flights[n]
		*f = flight{op: last, index: i}
		c.Existing, c.Err = nil, nil
		if c.Err = s.check(c); c.Err != nil {
			continue
		}
		other, err := s.lift(c, f)
		switch {
		case err != nil:
			c.Err = err
		case other != nil:
			others = append(others, *other)
		case c.Existing == nil:
			last.load.add(f.encode(&c.Entry))
			n++
			last.flights = flights[begin:n:n]
		}
	}
	if n == 0 {
		return nil, others
	}
	return first, others
}

// lift freezes the claim of an entry. It sets c.Existing if the entry is stored already, and returns the
// flight to wait for if there is one of the same key.
func (s *Store) lift(c *onefold.Commit, f *flight) (*follower, error) {
	switch {
	case c.Entry.Key.IsZero():
		return nil, nil
	case c.Claim == nil:
		return s.liftUnclaimed(c, f)
	}
	own, st, err := s.lockClaim(c.Claim)
	if err != nil {
		return nil, s.repeated(c, err)
	}
	defer st.mu.Unlock()
	if own.state == committing {
		return &follower{c, own.flight, true}, nil
	}
	own.state, own.flight = committing, f
	f.claim = own
	return nil, nil
}

// repeated decides about an entry whose claim is not current: success if it is stored under this very
// claim, else the error of the claim.
func (s *Store) repeated(c *onefold.Commit, lost error) error {
	r, _, err := s.lookup(c.Entry.Key)
	switch {
	case errors.Is(err, onefold.ErrNotFound):
		return lost
	case err != nil:
		return err
	case r.Token != c.Claim.Token:
		return lost
	}
	c.Existing = r
	return nil
}

// liftUnclaimed gives an entry without a claim one of its own, by the decision of Begin.
func (s *Store) liftUnclaimed(c *onefold.Commit, f *flight) (*follower, error) {
	canon := canonOf(&c.Entry.Key)
	hash := s.hash(canon)
	st := s.stripe(hash)
	var out *outside
	for {
		st.mu.Lock()
		other, decided, err := s.tryUnclaimed(st, hash, canon, c, f, out)
		st.mu.Unlock()
		if decided || err != nil {
			return other, err
		}
		if out, err = s.findSealed(hash, canon); err != nil {
			return nil, err
		}
	}
}

// tryUnclaimed is one try of liftUnclaimed; see decide. The lock of st is held.
func (s *Store) tryUnclaimed(
	st *stripe, hash uint64, canon []byte, c *onefold.Commit, f *flight, out *outside,
) (*follower, bool, error) {
	if other := st.claim(hash, &c.Entry.Key); other != nil && other.live(s.clock.Mono()) {
		switch {
		case other.fingerprint.Conflicts(c.Entry.Fingerprint):
			return nil, false, fmt.Errorf("%w: %v", onefold.ErrMismatch, c.Entry.Key)
		case other.state == committing && other.holder == onefold.Holder{}:
			return &follower{c, other.flight, false}, true, nil
		}
		return nil, false, fmt.Errorf("%w: %v is running", onefold.ErrBusy, c.Entry.Key)
	}
	// No holder: nobody else can be given this claim. Its lease never matters, since it flies at once.
	r := onefold.Request{Key: c.Entry.Key, Fingerprint: c.Entry.Fingerprint, Lease: 1}
	g, decided, err := s.decide(st, hash, canon, &r, out)
	switch {
	case err != nil || !decided:
		return nil, false, err
	case g.Verdict == onefold.Mismatch:
		return nil, false, fmt.Errorf("%w: %v", onefold.ErrMismatch, c.Entry.Key)
	case g.Verdict == onefold.Done:
		c.Existing = g.Record
		return nil, true, nil
	}
	f.claim = g.Claim.Handle.(*claim)
	f.claim.state, f.claim.flight = committing, f
	return nil, true, nil
}

// follow answers an entry by the flight of the same key that was under way before it.
func (s *Store) follow(ctx context.Context, f follower) {
	if err := f.flight.op.answered.wait(ctx); err != nil {
		f.commit.Err = err
		return
	}
	if f.own {
		if f.commit.Err = f.flight.err; f.commit.Err == nil {
			f.commit.Existing, _, _ = s.lookup(f.commit.Entry.Key)
		}
		return
	}
	// The other one is stored, or it has failed by what it asked for. Either way this entry can be decided
	// now like one that has just come.
	if err := s.Commit(ctx, []*onefold.Commit{f.commit}); err != nil {
		f.commit.Err = err
	}
}

func (op *commitOp) answer(batch []*onefold.Commit) {
	for i := range op.flights {
		f := &op.flights[i]
		batch[f.index].Existing, batch[f.index].Err = f.existing, f.err
	}
}

func (op *commitOp) answerUnknown(batch []*onefold.Commit, err error) {
	for i := range op.flights {
		batch[op.flights[i].index].Err = err
	}
}
