package boltstore

import (
	"math"
	"time"
)

// dropOp drops the leftover pieces of the journal, one in each group or a part of it: a group must not take long. It
// queues itself until none is left, so that the upkeep can go on meanwhile.
type dropOp struct {
	answer
	store   *Store
	piece   piece
	gone    bool          // in this group
	more    bool          // there are further leftovers
	records int           // dropped so far
	took    time.Duration // with a minus sign, when it began, until it has ended
}

func (o *dropOp) weight() load { return load{puts: 2} }

func (o *dropOp) prepare(g *group) { o.piece, _ = g.store.pieces.leftover() }

func (o *dropOp) apply(g *group) (err error) {
	o.gone, err = g.b.journal.drop(o.piece.first, max(pieceRecords, g.store.options.hooks.pieceRecords))
	return err
}

func (o *dropOp) publish(g *group) {
	if o.gone {
		o.records += o.piece.records
		g.store.pieces.dropped()
	}
	_, o.more = g.store.pieces.leftover()
}

// finish queues the op again, or answers.
func (o *dropOp) finish(err error) {
	again := err == nil && o.more && !o.store.ending()
	if again && o.store.queue.add(o) == nil {
		return
	}
	o.took += o.store.clock.Mono()
	o.answer.finish(err)
}

// succeeded reports whether the op has ended without an error.
func (o *dropOp) succeeded() bool {
	select {
	case <-o.done:
		return o.err == nil
	default:
		return false
	}
}

// startDrop lets leftover pieces be dropped, if that is not under way. A drop that has failed is left to dropAll.
func (s *Store) startDrop() error {
	if _, some := s.pieces.leftover(); !some {
		return nil
	}
	if o := s.drop; o != nil {
		if !o.succeeded() {
			return nil
		}
		s.tell(work{what: workDrop, records: o.records, took: o.took}, nil)
	}
	o := &dropOp{answer: newAnswer(), store: s, took: -s.clock.Mono()}
	if err := s.queue.add(o); err != nil {
		return err
	}
	s.drop = o
	return nil
}

// dropAll waits until no piece is left over.
func (s *Store) dropAll() (done work, some bool, err error) {
	if err := s.startDrop(); err != nil || s.drop == nil {
		return done, err != nil, err
	}
	<-s.drop.done
	done.records, done.took, err = s.drop.records, s.drop.took, s.drop.err
	s.drop = nil
	return done, true, err
}

// firstLeftover is the first position of the pieces that are left over, or else beyond all positions.
func (s *Store) firstLeftover() uint64 {
	if p, some := s.pieces.leftover(); some {
		return p.first
	}
	return math.MaxUint64
}
