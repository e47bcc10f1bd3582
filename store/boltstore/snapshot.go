package boltstore

import (
	"fmt"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/guard"
)

// snapshot is the one read transaction through which everything is read.
//
// bbolt shows a new meta page to readers that begin between its write and the end of its sync, and
// after a failed sync too. Therefore no reader begins a transaction of its own, except for View, which compares it
// with this one: the writer renews the snapshot after each commit that has succeeded, and readers see what is durable and nothing else. The
// lock is held for single reads, since a bbolt transaction is not for concurrent use.
type snapshot struct {
	mu  sync.Mutex
	tx  *bolt.Tx
	b   buckets
	err error // why there is no transaction

	size    atomic.Int64  // bytes that the main file reached to at the last renewal
	changed chan struct{} // closed at the next renewal; nil: nobody waits for it
}

// await returns a channel that is closed when the snapshot has been renewed. The lock is held.
func (s *snapshot) await() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// read runs fn on the snapshot. fn copies what it keeps. Errors: those of fn, ErrDamaged, ErrClosed.
func (s *snapshot) read(fn func(b *buckets) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return guard.Run("read", func() error { return fn(&s.b) })
}

// renew shows the latest commit to readers.
func (s *snapshot) renew(db *bolt.DB) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renewLocked(db)
}

func (s *snapshot) renewLocked(db *bolt.DB) error {
	s.closeLocked(nil)
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	err := guard.Run("begin to read", func() (err error) {
		if s.tx, err = db.Begin(false); err != nil {
			return fmt.Errorf("%w: begin to read: %w", onefold.ErrDamaged, err)
		}
		s.size.Store(s.tx.Size())
		s.b, err = bucketsOf(s.tx)
		return err
	})
	if err != nil {
		s.closeLocked(err)
	}
	return err
}

// closeLocked ends the transaction; readers get reason from now on.
func (s *snapshot) closeLocked(reason error) {
	if s.tx != nil {
		_ = guard.Run("end reading", s.tx.Rollback)
	}
	s.tx, s.b, s.err = nil, buckets{}, reason
}

// close ends reading for good.
func (s *snapshot) close(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeLocked(reason)
}
