package boltstore

import (
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sealed"
)

// The kinds of work of the upkeep, as the observer is told them.
const (
	workSeal    = "seal"    // a frozen segment into files of its own
	workDrop    = "drop"    // a piece of the journal whose records are sealed
	workMerge   = "merge"   // some indexes into one
	workExpire  = "expire"  // segments without a record that counts
	workRewrite = "rewrite" // a segment of which something was erased
)

// eraseLag is how long what was erased in a segment waits for more, before the segment is written anew.
const eraseLag = time.Minute

// work is one piece of work that was done.
type work struct {
	what    string
	records int
	bytes   int64
}

// keepUp is the upkeep: the one goroutine that works on immutable files. It does one piece of work after the
// other until nothing is due, and ends when the store is closed. What fails is tried again in the next round.
func (s *Store) keepUp() {
	defer close(s.kept)
	ticker := time.NewTicker(s.options.hooks.sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-s.upkeepDue:
		case <-ticker.C:
		}
		s.keepUpNow()
	}
}

// keepUpNow does what is due.
func (s *Store) keepUpNow() {
	s.upkeepMu.Lock()
	defer s.upkeepMu.Unlock()
	for s.between() == nil {
		began := s.clock.Mono()
		done, err := s.nextWork()
		if done.what == "" {
			return
		}
		if err != nil && s.between() != nil {
			return // the store is being closed
		}
		s.tell(done, s.clock.Mono()-began, err)
		if err != nil {
			return
		}
	}
}

// nextWork does the most urgent piece of work; done.what is empty if there is none. What gives room back
// comes first.
func (s *Store) nextWork() (done work, err error) {
	if files := s.expiredFiles(); files != nil {
		done, err = s.expire(files)
		done.what = workExpire
		return done, err
	}
	if p, ok := s.pieces.leftover(); ok {
		return work{what: workDrop, records: p.records}, s.do(&dropOp{newAnswer(), p})
	}
	if r, ok := s.pieces.oldestFrozen(); ok {
		done, err = s.seal(r)
		done.what = workSeal
		return done, err
	}
	now := s.shelves.present.Load()
	if from, to, ok := nextMerge(now.tiers(), s.options.hooks.tierFactor); ok {
		done, err = s.merge(now, from, to)
		done.what = workMerge
		return done, err
	}
	if f := s.erasedFile(now); f != nil {
		done, err = s.rewrite(f)
		done.what = workRewrite
		return done, err
	}
	return work{}, nil
}

func (s *Store) wakeUpkeep() {
	select {
	case s.upkeepDue <- struct{}{}:
	default:
	}
}

// tell tells the observer.
func (s *Store) tell(done work, took time.Duration, err error) {
	if o := s.options.Observer; o != nil && o.Upkeep != nil {
		o.Upkeep(onefold.UpkeepEvent{
			At: s.clock.Wall(), Store: s.info.ID, Work: done.what, Records: done.records, Bytes: done.bytes, Took: took, Err: err,
		})
	}
}

// tiers are the tiers of the indexes, oldest first.
func (s *shelf) tiers() []uint8 {
	tiers := make([]uint8, len(s.indexes))
	for i, x := range s.indexes {
		tiers[len(tiers)-1-i] = x.tier
	}
	return tiers
}

// merge makes one index of those from the oldest but from to the oldest but to. Entries of segments that have
// ended are left out.
func (s *Store) merge(now *shelf, from, to int) (done work, err error) {
	n := len(now.indexes)
	old := now.indexes[n-to : n-from] // newest first
	span := positions{old[len(old)-1].head.First, old[0].head.End}
	f := s.newFile(sealed.KindIndex, span)
	f.tier = old[0].tier + 1
	sources := make([]*sealed.Index, len(old))
	for i, x := range old {
		sources[i] = x.Index
		f.head.Records += x.head.Records
	}
	keep := func(at uint64) bool { return now.segment(at) != nil }
	merged, err := s.writeIndex(f, func(w *sealed.IndexWriter) error {
		return sealed.Merge(w, sources, keep, s.between)
	})
	if err != nil {
		return done, err
	}
	done.records, done.bytes = int(merged.head.Records), merged.bytes
	return done, s.flip(&flipOp{answer: newAnswer(), change: change{addIndexes: []*indexFile{merged}, dropIndexes: old}})
}

// expiredFiles returns the segments without a record that counts, and indexes that point to no segment, or nil.
func (s *Store) expiredFiles() *change {
	now, clock := s.shelves.present.Load(), s.now()
	c := &change{}
	var left []positions
	for _, f := range now.segments {
		span := positions{f.head.First, f.head.End}
		if f.head.Expires <= clock && !s.rows.owned(span) {
			c.dropSegments = append(c.dropSegments, f)
		} else {
			left = append(left, span)
		}
	}
	if len(c.dropSegments) == 0 {
		return nil
	}
	indexes := make([]positions, len(now.indexes))
	for i, x := range now.indexes {
		indexes[i] = positions{x.head.First, x.head.End}
	}
	for _, i := range deadIndexes(indexes, left) {
		c.dropIndexes = append(c.dropIndexes, now.indexes[i])
	}
	return c
}

// expire ends segments and indexes.
func (s *Store) expire(c *change) (done work, err error) {
	flip := &flipOp{answer: newAnswer(), change: *c}
	for _, f := range c.dropSegments {
		done.records += int(f.head.Records)
		done.bytes += f.bytes
		flip.unmark = append(flip.unmark, s.marks.within(positions{f.head.First, f.head.End})...)
	}
	for _, f := range c.dropIndexes {
		done.bytes += f.bytes
	}
	return done, s.flip(flip)
}

// erasedFile returns a segment file that holds something that was erased long enough ago that what else was
// erased at that time is gone from it as well.
func (s *Store) erasedFile(now *shelf) *segmentFile {
	for _, at := range s.marks.before(s.clock.Mono() - s.options.hooks.eraseLag) {
		if f := now.segment(at); f != nil {
			return f
		}
	}
	return nil
}

// owned reports whether an unsettled row belongs to a record in a range.
func (q *rowQueue) owned(p positions) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for record := range q.owners {
		if p.first <= record && record < p.end {
			return true
		}
	}
	return false
}
