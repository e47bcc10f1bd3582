package memstore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/onefold-go/onefold"
)

// Store is a [onefold.Store] on a [Data]. Make one with [New] or [Open].
type Store struct {
	data    *Data
	options Options
	info    onefold.Info
	opened  time.Duration // monotonic time of Open
	base    time.Duration // store clock at Open

	// Everything below is guarded by data.mu and is gone with the Store.
	ended    bool // closed or cut off
	closing  bool
	inFlight int // commits that are accepted and not yet written
	counter  uint64
	claims   map[id]*claim
	feed     *feed
	lastFeed time.Duration // monotonic time of the last Next; < 0: never
	asking   int           // calls of Next that wait
	changed  chan struct{} // closed and replaced at each change that someone may wait for
}

var _ onefold.Store = (*Store)(nil)

func newStore(d *Data, o Options) *Store {
	o.Clock = o.Clock.OrSystem()
	if o.MaxEntry == 0 {
		o.MaxEntry = onefold.DefaultMaxEntry
	}
	return &Store{
		data: d, options: o,
		info: onefold.Info{
			Kind: "memory", ID: d.identity, Epoch: d.epoch, Position: d.position, Created: d.created, Clean: d.clean,
			OneProcess: true, OneFeed: true, Ordered: true, Timers: true,
			Expiry: onefold.ExpiryStore, MaxEntry: o.MaxEntry,
		},
		opened: o.Clock.Mono(), base: d.clock,
		claims: map[id]*claim{}, lastFeed: -1, changed: make(chan struct{}),
	}
}

// Info implements [onefold.Store]. Durable is false: nothing outlives the process.
func (s *Store) Info() onefold.Info { return s.info }

// enter locks the store for one call, or says why the call cannot be served. After a nil error the
// caller unlocks.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.data.mu.Lock()
	if s.ended || s.closing {
		s.data.mu.Unlock()
		return onefold.ErrClosed
	}
	if now := s.now(); now >= s.data.nextPass {
		s.sweep(now)
	}
	return nil
}

func (s *Store) leave() { s.data.mu.Unlock() }

// mono decides leases.
func (s *Store) mono() time.Duration { return s.options.Clock.Mono() }

// now is the store clock, which decides retention: what was counted before this Open, and the monotonic
// time since. Time that passes while no Store is open does not count, nor do jumps of the wall clock.
func (s *Store) now() time.Duration { return s.base + s.mono() - s.opened }

// stamp keeps the store clock with a write, so that a crash turns it back to the last write at most.
func (s *Store) stamp() { s.data.clock = s.now() }

// sweep removes what has expired, claims included: nobody can have waited for those.
func (s *Store) sweep(now time.Duration) {
	s.data.sweep(now)
	mono := s.mono()
	for k, c := range s.claims {
		if !c.live(mono) {
			delete(s.claims, k)
		}
	}
}

// number returns one that grows with each call and with each Open: a claim's token or a row's ticket.
func (s *Store) number() uint64 {
	s.counter++
	return s.info.Epoch<<40 | s.counter
}

// notify wakes everyone who waits for a change.
func (s *Store) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait gives the lock up until something changes, limit has passed or ctx ends, and takes it again.
func (s *Store) wait(ctx context.Context, limit time.Duration) error {
	changed := s.changed
	s.data.mu.Unlock()
	defer s.data.mu.Lock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// forever is a limit for wait that is never reached.
const forever = time.Duration(math.MaxInt64)

// end makes the store unusable and frees the data.
func (s *Store) end() {
	s.ended = true
	if s.data.live == s {
		s.data.live = nil
	}
	s.notify()
}

// Close implements [onefold.Store]. If ctx ends before the accepted commits are written, its error is
// returned, new work stays refused and Close may be called again.
func (s *Store) Close(ctx context.Context) error {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	s.closing = true
	s.notify()
	for s.inFlight > 0 && !s.ended {
		if err := s.wait(ctx, forever); err != nil {
			return fmt.Errorf("close with %d commits in flight: %w", s.inFlight, err)
		}
	}
	if !s.ended {
		s.stamp()
		s.data.clean = true
		s.end()
	}
	return nil
}
