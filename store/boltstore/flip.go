package boltstore

import (
	"errors"
	"os"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// flipOp lets another set of immutable files count. It is the last write of every piece of work on them: before
// it the old files count, after it the new ones, whatever happens in between.
type flipOp struct {
	answer
	change change
	unmark []uint64 // positions of marks that a new file holds
	thaw   bool     // the new segment is the oldest frozen one
	next   *shelf
	unused []func() error // close what nobody uses any more
}

// flip makes the new files durable under their names, lets them count, and removes those that do not count any
// more.
func (s *Store) flip(o *flipOp) error {
	err := s.syncSealed()
	if err == nil {
		// Only the upkeep changes the shelf, so what is made of it here is true when the writer comes to it.
		o.next, err = s.shelves.present.Load().after(&o.change, s.between)
	}
	if err == nil {
		err = s.do(o)
	}
	switch {
	case errors.Is(err, onefold.ErrUnknown), errors.Is(err, onefold.ErrDamaged):
		return errors.Join(err, o.change.closeNew()) // they may count: the next open decides
	case err != nil:
		return errors.Join(err, s.discard(&o.change))
	}
	_ = closeAll(o.unused) // nothing was written to these files: there is nothing to lose
	return s.removeDropped(&o.change)
}

// removeDropped removes the files that do not count any more. Who reads one of them goes on reading it.
func (s *Store) removeDropped(c *change) error {
	var free, used []sealedFile
	sort := func(f sealedFile, holders *int) {
		if s.shelves.held(holders) {
			used = append(used, f)
		} else {
			free = append(free, f)
		}
	}
	for _, f := range c.dropSegments {
		sort(f.sealedFile, &f.holders)
	}
	for _, f := range c.dropIndexes {
		sort(f.sealedFile, &f.holders)
	}
	errs := []error{removeFiles(s.dir, used)}
	for _, f := range free {
		if err := disk.Remove(f.path(s.dir), s.between); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// do gives an op to the writer and waits for its answer.
func (s *Store) do(o interface {
	op
	result() error
}) error {
	if err := s.queue.add(o); err != nil {
		return err
	}
	return o.result()
}

// result waits for the answer, however long it takes.
func (a *answer) result() error {
	<-a.done
	return a.err
}

func (o *flipOp) weight() load {
	n := len(o.unmark)
	return load{bytes: n * digestLen, puts: 2 + n}
}

func (o *flipOp) prepare(g *group) {
	n := len(o.next.registry().encode()) + sum.Len
	g.load.add(load{bytes: n, largest: n})
}

func (o *flipOp) apply(g *group) error {
	if err := putRegistry(g.b.meta, o.next.registry()); err != nil {
		return err
	}
	for _, at := range o.unmark {
		if err := g.b.erased.remove(position(at)); err != nil {
			return err
		}
	}
	return nil
}

// publish puts the shelf in place before the stripes forget what has come onto it: who looks at a stripe first
// and at the shelf then finds it in one of the two.
func (o *flipOp) publish(g *group) {
	s := g.store
	o.unused = s.shelves.replace(o.next)
	if o.thaw {
		n := 0
		for i := range s.stripes {
			st := &s.stripes[i]
			st.mu.Lock()
			n += st.thaw()
			st.mu.Unlock()
		}
		s.records.Add(-int64(n))
		s.pieces.seal()
	}
	s.marks.forget(o.unmark)
}
