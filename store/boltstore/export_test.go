package boltstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// Hooks are the places where tests reach in.
type Hooks struct {
	HashBits     int
	BeforeWrite  func()
	BeforeCommit func() error
	AfterCommit  func() error
	RowBudget    int
	MaxFile      int
	ProbeEvery   time.Duration
	SweepEvery   time.Duration
	PieceRecords int
	TierFactor   int
	EraseLag     time.Duration
}

// WithHooks returns o with hooks.
func WithHooks(o Options, h Hooks) *Options {
	o.hooks = hooks{
		hashBits: h.HashBits, beforeWrite: h.BeforeWrite, beforeCommit: h.BeforeCommit, afterCommit: h.AfterCommit, rowBudget: h.RowBudget,
		sweepEvery: h.SweepEvery, probeEvery: h.ProbeEvery, maxFile: &atomic.Int64{},
		pieceRecords: h.PieceRecords, tierFactor: h.TierFactor, eraseLag: h.EraseLag,
	}
	o.hooks.maxFile.Store(int64(h.MaxFile))
	return &o
}

// SetMaxFile changes Hooks.MaxFile, as on a disk that is filled or emptied by others.
func (s *Store) SetMaxFile(n int64) { s.options.hooks.maxFile.Store(n) }

// Crash ends the store as the death of its process would: what waits for the writer is answered with
// ErrClosed, nothing more is written, and the file is not marked as cleanly closed.
func (s *Store) Crash() error {
	s.refusal.Store(&refusal{err: fmt.Errorf("%w: crashed", onefold.ErrClosed), final: true})
	s.stopOnce.Do(func() { close(s.closing) })
	s.queue.mu.Lock()
	waiting := s.queue.ops[s.queue.next:]
	s.queue.ops, s.queue.next = nil, 0
	s.queue.mu.Unlock()
	for _, o := range waiting {
		o.finish(onefold.ErrClosed)
	}
	s.changes.mu.Lock()
	s.changes.list = nil
	s.changes.mu.Unlock()
	s.queue.close()
	<-s.written
	<-s.kept
	return s.closeFile()
}

// Sweep collects what has expired, at once.
func (s *Store) Sweep() {
	s.sweepMemory()
	for s.expiredState() {
		o := &sweepOp{newAnswer()}
		if s.queue.add(o) != nil || o.wait(context.Background()) != nil || o.err != nil {
			return
		}
	}
}

// KeepUp does the work in the background that is due, at once.
func (s *Store) KeepUp() { s.keepUpNow() }

// Queued is how many ops wait for the writer.
func (s *Store) Queued() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return len(s.queue.ops) - s.queue.next
}

// ExpiredState reports whether some value of state waits for the sweep.
func (s *Store) ExpiredState() bool { return s.expiredState() }

// Unwritten is how many changed histories wait for the writer.
func (s *Store) Unwritten() int {
	s.changes.mu.Lock()
	defer s.changes.mu.Unlock()
	return len(s.changes.list)
}

// LiveClaims is how many claims memory holds.
func (s *Store) LiveClaims() int {
	n := 0
	for i := range s.stripes {
		n += int(s.stripes[i].claimCount())
	}
	return n
}

// StoreClock is the store clock, which decides retention.
func (s *Store) StoreClock() time.Duration { return s.now() }

// Summed returns a value with its checksum.
func Summed(key, value []byte) []byte { return sum.Append(key, value) }

// LookAfterFile does what each sweep begins with.
func (s *Store) LookAfterFile() { s.lookAfterFile() }
