package boltstore

import (
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
	"github.com/onefold-go/onefold/store/boltstore/internal/guard"
)

// The times between two rounds of collecting what has expired, and between two looks at limits and at the room on
// the disk.
const (
	sweepEvery = 5 * time.Second
	probeEvery = time.Second
)

// write is the writer: the one goroutine that changes the file. It ends when the queue is closed and
// empty.
func (s *Store) write() {
	defer close(s.written)
	sweep := sweeper{ticker: time.NewTicker(s.options.hooks.sweepEvery)}
	defer sweep.ticker.Stop()
	room := time.NewTicker(s.options.hooks.probeEvery)
	defer room.Stop()
	lag := time.NewTimer(s.options.FailureLag)
	defer lag.Stop()
	lagging := false // lag runs for changes that no group has taken yet
	overdue := false // it has run out
	var ops []op
	for {
		select {
		case <-room.C:
			s.probe() // also while the writer is busy
		default:
		}
		var sum load
		ops, sum = s.queue.take(ops[:0], s.options.MaxGroupEntries, s.options.MaxGroupBytes)
		if sweep.look(s) {
			o := &sweepOp{newAnswer()}
			ops = append(ops, o)
			sum.add(o.weight())
		}
		s.freezeIfDue()
		if len(ops) > 0 || overdue {
			err := s.writeGroup(ops, sum)
			clear(ops)
			sweep.due = sweep.due && err == nil // what is not collected now is collected in the next round
			lagging, overdue = false, overdue && err == nil && !s.changes.empty()
			continue
		}
		if s.queue.drained() {
			s.writeLast()
			return
		}
		if !lagging && !s.changes.empty() {
			lagging = true
			lag.Reset(s.options.FailureLag)
		}
		select {
		case <-s.queue.wake:
		case <-lag.C:
			overdue = !s.changes.empty()
		case <-sweep.ticker.C:
			sweep.begin(s)
		case <-room.C:
			s.probe()
		}
	}
}

// writeLast writes the failures that came in while the store was being closed.
func (s *Store) writeLast() {
	for !s.changes.empty() {
		if err := s.writeGroup(nil, load{}); err != nil {
			return
		}
	}
}

// writeGroup makes one group durable and answers everyone in it, except the ops that it puts off.
func (s *Store) writeGroup(ops []op, sum load) error {
	g := &group{store: s, ops: ops, load: sum, now: s.now(), wall: s.clock.Wall()}
	err := s.stopped()
	if err == nil {
		g.sort()
		g.changed = s.changes.take(s.options.MaxGroupEntries)
		g.history = s.collectHistory(g.changed)
		for _, o := range ops {
			o.prepare(g)
		}
		if s.options.hooks.beforeWrite != nil && sum.entries > 0 {
			s.options.hooks.beforeWrite()
		}
		err = s.commitGroup(g)
		s.queue.putBack(g.putOff)
	}
	if sum.entries > 0 {
		s.wrote.Store(int64(s.real()))
		s.committed.Add(uint64(sum.entries))
	}
	if err == nil {
		s.setHead(g.head)
		g.publish()
	} else {
		s.changes.giveBack(g.changed)
		if disk.Full(err) && sum.grows {
			g.ops = s.writeFreeing(g.ops)
		}
	}
	s.lookAtRoom(g, err)
	for _, o := range g.ops {
		o.finish(err)
	}
	return err
}

// writeFreeing writes those ops of a group that add nothing, when the disk was too full for all of them: what
// only frees room must not fail for its neighbours. It returns the others.
func (s *Store) writeFreeing(ops []op) (others []op) {
	var freeing []op
	var sum load
	for _, o := range ops {
		if w := o.weight(); w.grows {
			others = append(others, o)
		} else {
			freeing = append(freeing, o)
			sum.add(w)
		}
	}
	if len(freeing) > 0 {
		_ = s.writeGroup(freeing, sum) // each op is told
	}
	return others
}

// commitGroup writes the group.
func (s *Store) commitGroup(g *group) error {
	id, err := s.tryUntilJoined(g)
	closed := g.closed // the snapshot, with its lock held
	if closed {
		defer s.snap.mu.Unlock()
	}
	if err != nil {
		err = s.classify(id, err)
		if closed {
			s.readAgain(err)
		}
		return err
	}
	s.mapping.wrote(g)
	if !closed {
		s.snap.mu.Lock()
		defer s.snap.mu.Unlock()
	}
	if err := s.snap.renewLocked(s.db); err != nil {
		s.stop(err) // the group is durable all the same
		return nil
	}
	return s.confirm(g, id)
}

// confirm looks whether the file shows the group, before anybody is told that it is stored: a write that the
// system has reported and not made would be found out at the next Open only. The lock of the snapshot is held.
func (s *Store) confirm(g *group, id int) error {
	h, err := head{}, error(nil)
	if s.snap.tx.ID() == id {
		h, err = readHead(s.snap.b.meta.Get)
	}
	if err == nil && h == g.head {
		return nil
	}
	err = errors.Join(fmt.Errorf("%w: %s does not show what was written to it", onefold.ErrDamaged, s.path), err)
	s.stop(err)
	s.snap.closeLocked(err)
	return fmt.Errorf("%w: %w", onefold.ErrUnknown, err)
}

// makeWay closes the snapshot if the mapped file may have to grow: bbolt waits for all readers before it maps the
// file anew. Nobody can read from then on until the group is written. What joins have put cannot be bounded.
func (s *Store) makeWay(g *group) {
	end := g.tx.Size()
	s.mapping.grown(g.tx)
	if g.joined.ran == 0 && end+s.mapping.bound(g, end) < s.mapping.known {
		return
	}
	s.snap.mu.Lock()
	s.snap.closeLocked(nil)
	g.closed = true
}

// readAgain opens the snapshot after a failed write for which it was closed. After a fail stop it stays
// closed: what could be seen might not be durable.
func (s *Store) readAgain(failed error) {
	if stopped := s.stopped(); stopped != nil {
		s.snap.closeLocked(stopped)
		return
	}
	if err := s.snap.renewLocked(s.db); err != nil {
		s.stop(errors.Join(failed, err))
	}
}

// transact runs one bbolt transaction. It returns the transaction's ID, or 0 if it never came to
// committing.
func (s *Store) transact(g *group) (id int, err error) {
	// What panics before the commit must not reach bbolt, which would look for the free pages.
	fill := func(tx *bolt.Tx) error {
		return guard.Run("write", func() (err error) {
			id, err = s.fill(g, tx)
			return err
		})
	}
	if g.load.joins > 0 {
		// bbolt's own keeps joins from committing. After a panic it may keep its locks, too.
		returned := false
		err = guard.Run("write", func() error {
			err := s.db.Update(fill)
			returned = true
			return err
		})
		s.locked = s.locked || !returned
	} else {
		err = guard.Update("write", s.db, fill)
	}
	if hook := s.options.hooks.afterCommit; err == nil && hook != nil {
		err = hook()
	}
	return id, err
}

// fill puts the group into tx, up to the commit. It returns the transaction's ID once it has come that far.
func (s *Store) fill(g *group, tx *bolt.Tx) (id int, err error) {
	if err := g.begin(tx); err != nil {
		return 0, err
	}
	if err := g.apply(); err != nil {
		return 0, err
	}
	if err := s.reserve(g, tx); err != nil {
		return 0, err
	}
	s.makeWay(g)
	id = tx.ID()
	if hook := s.options.hooks.beforeCommit; hook != nil {
		return id, hook()
	}
	return id, nil
}

// classify finds out what a failed write means, while nothing is let in.
//
// If the file still shows an older transaction, the meta page was not written: known not to be stored, and
// work goes on. Otherwise nobody knows what is on the disk, since the kernel may have dropped the pages
// that it could not write: fail stop.
func (s *Store) classify(id int, failed error) error {
	s.pause(fmt.Errorf("%w: a write has failed: %w", onefold.ErrUnavailable, failed))
	if errors.Is(failed, onefold.ErrDamaged) {
		s.stop(failed)
		if id == 0 {
			return failed // nothing was committed
		}
		return fmt.Errorf("%w: %w", onefold.ErrUnknown, failed)
	}
	seen := -1
	err := guard.Run("look after a failed write", func() error {
		if id == 0 {
			return nil // never came to committing
		}
		tx, err := s.db.Begin(false)
		if err != nil {
			return err
		}
		seen = tx.ID()
		return tx.Rollback()
	})
	if err == nil && seen < id {
		s.resume()
		return notStored(failed)
	}
	s.stop(fmt.Errorf("%w: a write may be half on the disk; close the store and open it again: %w", onefold.ErrDamaged, failed))
	return fmt.Errorf("%w: the write failed at its end: %w", onefold.ErrUnknown, failed)
}

// notStored names the error of a write of which nothing is stored.
func notStored(err error) error {
	if disk.Full(err) {
		return fmt.Errorf("%w: free space on the disk: %w", onefold.ErrFull, err)
	}
	return fmt.Errorf("%w: %w", onefold.ErrUnavailable, err)
}
