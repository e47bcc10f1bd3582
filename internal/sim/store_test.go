package sim

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/onefold-go/onefold"
)

// watched is the store of one life of the process, with the faults that the contract allows, and with a ledger that is
// told what the store really did. Calls of a process that has died do not return.
type watched struct {
	onefold.Store
	w    *world
	life int
	user int // the process that calls
}

// alive ends the goroutine if its process has died.
func (s *watched) alive() {
	if s.w.life.Load() != int64(s.life) {
		runtime.Goexit()
	}
}

// Begin implements [onefold.Store].
func (s *watched) Begin(ctx context.Context, r onefold.Request) (onefold.Grant, error) {
	s.alive()
	if s.w.takes(beginUnavailable) {
		return onefold.Grant{}, onefold.ErrUnavailable
	}
	g, err := s.Store.Begin(ctx, r)
	if err != nil {
		return g, err
	}
	s.w.note("    begin %v: %v", r.Key, g.Verdict)
	s.w.judge(s.w.ledger.begun(r, g, s.w.now))
	if s.w.takes(beginAnswerLost) {
		if r.Durable {
			return onefold.Grant{}, onefold.ErrUnknown
		}
		return onefold.Grant{}, onefold.ErrUnavailable
	}
	return g, nil
}

// Release implements [onefold.Store].
func (s *watched) Release(ctx context.Context, c *onefold.Claim, f onefold.Failure) error {
	s.alive()
	if s.w.takes(releaseUnavailable) {
		return onefold.ErrUnavailable
	}
	err := s.Store.Release(ctx, c, f)
	s.w.note("    release %v: counted %t, %v", c.Key, f.Counted, err)
	if err == nil {
		s.w.judge(s.w.ledger.released(c, f))
	}
	return err
}

// Commit implements [onefold.Store].
func (s *watched) Commit(ctx context.Context, batch []*onefold.Commit) error {
	s.alive()
	switch {
	case s.w.takes(commitUnavailable):
		return onefold.ErrUnavailable
	case s.w.takes(commitUnknownAbsent):
		return unknown(batch)
	}
	s.w.ledger.committing(batch, true, s.w.now)
	err := s.Store.Commit(ctx, batch)
	s.w.ledger.committing(batch, false, s.w.now)
	for _, c := range batch {
		s.w.note("    commit %v: %v, %v", c.Entry.Key, c.Entry.Outcome, firstOf(err, c.Err))
		if err == nil && c.Err == nil && c.Existing == nil && !c.Entry.Key.IsZero() {
			s.stored(ctx, c)
		}
		if errors.Is(c.Err, onefold.ErrLost) {
			s.w.judge(s.w.ledger.lost(c, s.w.now))
		}
	}
	s.w.reach(atWritten, s.life)
	if err == nil && s.w.takes(commitUnknownStored) {
		return unknown(batch)
	}
	return err
}

// stored looks whether what was committed is there.
func (s *watched) stored(ctx context.Context, c *onefold.Commit) {
	r, err := s.Lookup(ctx, c.Entry.Key)
	if err != nil || r.Outcome != c.Entry.Outcome || c.Claim != nil && r.Token != c.Claim.Token {
		s.w.judge("the commit of " + c.Entry.Key.String() + " has succeeded, and its record is not there")
		return
	}
	s.w.judge(s.w.ledger.committed(c, r.Token, s.w.now))
	s.w.judge(s.w.counted(ctx, s.Store))
}

// unknown is what a store says that does not know what it has done.
func unknown(batch []*onefold.Commit) error {
	for _, c := range batch {
		c.Err, c.Existing = onefold.ErrUnknown, nil
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Settle implements [onefold.Store].
func (s *watched) Settle(ctx context.Context, all []onefold.Settlement) error {
	s.alive()
	if s.w.takes(settleUnknownAbsent) {
		return onefold.ErrUnknown
	}
	err := s.Store.Settle(ctx, all)
	for i := range all {
		one := &all[i]
		s.w.note("    settle %q to %s: %v, %v", one.Row.Effect.Payload, one.Row.Effect.Target, one.State, err)
		if err == nil && one.State == onefold.Sent {
			s.w.judge(s.w.ledger.settled(&one.Row))
		}
	}
	s.w.quiet()
	s.alive()
	if err == nil && s.w.takes(settleUnknownDone) {
		return onefold.ErrUnknown
	}
	return err
}

// Wait implements [onefold.Store]. The goroutines that wait for dead letters go on one at a time, when nothing else
// does, so that a schedule always runs alike.
func (s *watched) Wait(ctx context.Context, k onefold.Key) (onefold.Record, error) {
	r, err := s.Store.Wait(ctx, k)
	if err == nil {
		<-s.w.waiters.enter(s.user, k)
	}
	s.alive()
	return r, err
}

// waiters are goroutines that may go on, each known by the process and the key that it waits for.
type waiters struct {
	mu    sync.Mutex
	ready map[string]chan struct{}
}

// enter returns what is closed when it is the caller's turn. A process holds one delivery of a key at a time, so that no
// two callers have one name.
func (w *waiters) enter(process int, k onefold.Key) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ready == nil {
		w.ready = map[string]chan struct{}{}
	}
	turn := make(chan struct{})
	w.ready[string(k.Append([]byte{byte(process)}))] = turn
	return turn
}

// next takes out the turn of the lowest name, or nil.
func (w *waiters) next() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.ready) == 0 {
		return nil
	}
	lowest := slices.Min(slices.Collect(maps.Keys(w.ready)))
	turn := w.ready[lowest]
	delete(w.ready, lowest)
	return turn
}
