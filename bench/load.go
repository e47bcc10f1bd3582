package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// How records are committed where the question is how fast the store can.
const (
	committers = 4
	batchSize  = 1024
	scope      = "ORDERS/billing"
	retention  = 24 * time.Hour
)

// recordKey is the key of the n-th record: 32 bytes that look drawn at random, differ from all others, and
// can be made again to ask for the record.
func recordKey(n uint64) onefold.Key {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:], rand.NewPCG(1, n).Uint64())
	binary.BigEndian.PutUint64(raw[8:], n)
	return onefold.Key{Scope: scope, ID: hex.EncodeToString(raw[:])}
}

// load commits records to one store, numbered from 0 on.
type load struct {
	store  *boltstore.Store
	retain time.Duration
	next   atomic.Uint64 // number of the next record
}

func newLoad(s *boltstore.Store, next uint64, retain time.Duration) *load {
	l := &load{store: s, retain: retain}
	l.next.Store(next)
	return l
}

// commit makes n more records durable as fast as the store takes them and reports how long that took. done,
// if it is set, hears of every batch, from several goroutines.
func (l *load) commit(ctx context.Context, n int, done func(records int)) (time.Duration, error) {
	last := l.next.Load() + uint64(n)
	var taken atomic.Uint64
	start := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for range committers {
		group.Go(func() error {
			b := newBatch(batchSize)
			for {
				offset := taken.Add(batchSize) - batchSize
				if offset >= uint64(n) {
					return nil
				}
				first := last - uint64(n) + offset
				size := int(min(batchSize, last-first))
				if err := b.commit(ctx, l, first, size); err != nil {
					return err
				}
				if done != nil {
					done(size)
				}
			}
		})
	}
	err := group.Wait()
	l.next.Store(last)
	return time.Since(start), err
}

// batch is the memory of one committer.
type batch struct {
	commits []onefold.Commit
	refs    []*onefold.Commit
}

func newBatch(size int) *batch {
	b := &batch{commits: make([]onefold.Commit, size), refs: make([]*onefold.Commit, size)}
	for i := range b.commits {
		b.refs[i] = &b.commits[i]
	}
	return b
}

// commit commits the records from first on in one call.
func (b *batch) commit(ctx context.Context, l *load, first uint64, size int) error {
	b.fill(l, first, size)
	return b.send(ctx, l, size)
}

func (b *batch) fill(l *load, first uint64, size int) {
	for i := range size {
		b.commits[i] = onefold.Commit{Entry: onefold.Entry{
			Key: recordKey(first + uint64(i)), Outcome: onefold.Succeeded, Retain: l.retain,
		}}
	}
}

func (b *batch) send(ctx context.Context, l *load, size int) error {
	if err := l.store.Commit(ctx, b.refs[:size]); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	for i := range size {
		c := &b.commits[i]
		switch {
		case c.Err != nil:
			return fmt.Errorf("commit %v: %w", c.Entry.Key, c.Err)
		case c.Existing != nil:
			return fmt.Errorf("commit %v: it was stored already, so nothing was measured", c.Entry.Key)
		}
	}
	return nil
}

// meter watches how records become durable: the rate of each window of so many, and a line of progress for
// each step.
type meter struct {
	window, step int
	say          func(total int)

	mu           sync.Mutex
	total, fresh int // records in all, and in the window that is open
	since        time.Time
	rates        []float64
}

// begin opens a window, so that what happened since the last record does not count.
func (m *meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since, m.fresh = time.Now(), 0
}

func (m *meter) add(records int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.total
	m.total += records
	m.fresh += records
	if m.fresh >= m.window {
		now := time.Now()
		m.rates = append(m.rates, perSecond(m.fresh, now.Sub(m.since)))
		m.since, m.fresh = now, 0
	}
	if m.total/m.step > before/m.step {
		m.say(m.total)
	}
}

// reset forgets the windows so far, not the records.
func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rates = nil
}

func (m *meter) windows() []float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rates
}
