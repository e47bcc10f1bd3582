package boltstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/guard"
)

// Kind is the Info.Kind of stores of this package.
const Kind = "bolt"

// Store is a [onefold.Store] in one directory. Make one with [Open]. It is for concurrent use.
type Store struct {
	dir     string
	path    string // of the main file
	options Options
	clock   onefold.Clock
	info    onefold.Info
	db      *bolt.DB
	file    *os.File // the main file as bbolt has it open; of the writer

	id       [16]byte
	hashKey  hashKey
	hashMask uint64
	opened   time.Duration // monotonic time of Open
	base     time.Duration // store clock at Open

	stripes   [stripeCount]stripe
	records   atomic.Int64 // entries of the stripes: of records that are not sealed
	pieces    pieces
	shelves   shelves
	marks     marks
	attention attention
	tokens    atomic.Uint64
	rows      rowQueue
	snap      snapshot
	views     views
	queue     queue
	changes   changes
	mapping   mapping // of the writer
	room      room    // of the writer
	locked    bool    // of the writer: bbolt may have kept its locks, see closeDB
	restoring bool    // of Open: it is Restore that opens
	largest   int     // of Open: bytes of the largest value in the file
	counts    tally   // of Open: the entries that the survey has counted

	headMu sync.Mutex
	head   head // as in the file

	refusal  atomic.Pointer[refusal] // nil: everything is let in
	fullness atomic.Pointer[refusal] // why no fresh key is let in; nil: they are
	failed   atomic.Pointer[refusal] // the fail stop; set once, and nothing takes it back
	closing  chan struct{}           // closed when Close or a fail stop begins
	stopOnce sync.Once
	written  chan struct{} // closed when the writer has ended
	kept     chan struct{} // closed when the upkeep has ended

	upkeepDue  chan struct{} // wakes the upkeep
	upkeepTurn chan struct{} // of one; full while it does a piece of work
	patience   patience
	started    time.Time // see real
	pace       pace
	drop       *dropOp       // under way; it belongs to whoever has the turn of the upkeep
	committed  atomic.Uint64 // entries of groups that were written
	wrote      atomic.Int64  // monotonic, in nanoseconds; when a group with entries was written last
	closeMu    sync.Mutex
	farewell   *farewell
	closed     bool // the file is closed
}

var _ onefold.Store = (*Store)(nil)

// refusal is why nothing is let in.
type refusal struct {
	err   error
	final bool
}

// Info implements [onefold.Store].
func (s *Store) Info() onefold.Info { return s.info }

// enter says why a call cannot be served, if that is so.
func (s *Store) enter(ctx context.Context) error {
	if r := s.refusal.Load(); r != nil {
		if err := s.stopped(); err != nil {
			return err // says more than that the store is closed as well
		}
		return r.err
	}
	return ctx.Err()
}

// now is the store clock, which decides retention: what was counted before this Open, and the monotonic
// time since. Time that passes while the store is not open does not count, nor do jumps of the wall clock.
func (s *Store) now() time.Duration { return s.base + s.clock.Mono() - s.opened }

func (s *Store) loadHead() head {
	s.headMu.Lock()
	defer s.headMu.Unlock()
	return s.head
}

func (s *Store) setHead(h head) {
	s.headMu.Lock()
	defer s.headMu.Unlock()
	s.head = h
}

// pause lets nothing in until resume; a final refusal stays.
func (s *Store) pause(err error) {
	s.refusal.CompareAndSwap(nil, &refusal{err: err})
}

func (s *Store) resume() {
	if r := s.refusal.Load(); r != nil && !r.final {
		s.refusal.CompareAndSwap(r, nil)
	}
}

// stopped is why nothing can be written any more, or nil.
func (s *Store) stopped() error {
	if r := s.failed.Load(); r != nil {
		return r.err
	}
	return nil
}

// stop is the fail stop: from now on every call gets err, nothing is written any more, and the next Open
// reads the file from the disk. The first one counts.
func (s *Store) stop(err error) {
	if markErr := writeCheckMark(s.dir, err); markErr != nil {
		err = fmt.Errorf("%w (and no mark could be left for the next Open: %w)", err, markErr)
	}
	f := &refusal{err: err, final: true}
	if s.failed.CompareAndSwap(nil, f) {
		s.refusal.Store(f)
	}
	s.stopOnce.Do(func() { close(s.closing) })
}

// Close implements [onefold.Store]. If ctx ends before the accepted commits are written, its error is
// returned, new work stays refused and Close may be called again.
func (s *Store) Close(ctx context.Context) error {
	s.refusal.Store(&refusal{err: fmt.Errorf("%w: %s", onefold.ErrClosed, s.dir), final: true})
	s.stopOnce.Do(func() { close(s.closing) })
	s.sayFarewell()
	s.queue.close()
	for _, part := range []struct {
		ended <-chan struct{}
		what  string
	}{{s.written, "commits in flight"}, {s.kept, "work on segments going on"}, {s.views.ended(), "a View running"}} {
		select {
		case <-part.ended:
		case <-ctx.Done():
			return fmt.Errorf("close %s with %s: %w", s.dir, part.what, ctx.Err())
		}
	}
	return s.closeFile()
}

// sayFarewell queues the last op, once.
func (s *Store) sayFarewell() {
	s.closeMu.Lock()
	defer s.closeMu.Unlock()
	if s.farewell != nil || s.stopped() != nil {
		return
	}
	o := &farewell{answer: newAnswer(), size: s.rows.unwrittenBytes()}
	if err := s.queue.add(o); err == nil {
		s.farewell = o
	}
}

// closeFile gives the file free. The writer has ended. Closing again is success.
func (s *Store) closeFile() error {
	s.closeMu.Lock()
	defer s.closeMu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.snap.close(fmt.Errorf("%w: %s", onefold.ErrClosed, s.dir))
	_ = closeAll(s.shelves.replace(&shelf{closed: true}))
	var err error
	if s.farewell != nil && s.farewell.err == nil && s.stopped() == nil {
		err = s.noteClose() // while the lock is held
	}
	err = errors.Join(err, s.closeDB())
	if s.farewell != nil && s.farewell.err != nil {
		err = errors.Join(err, fmt.Errorf("%s is closed and not marked as cleanly closed: %w", s.dir, s.farewell.err))
	}
	return err
}

// closeDB closes the main file. bbolt cannot close it if a transaction has kept its locks: the file is given free
// alone then, and stays mapped.
func (s *Store) closeDB() error {
	if s.locked {
		return errors.Join(unlockFile(s.file), s.file.Close())
	}
	return guard.Run("close", s.db.Close)
}
