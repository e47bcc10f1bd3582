package boltstore

import (
	"maps"
	"slices"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sealed"
)

// The kinds of work of the upkeep, as the observer is told them.
const (
	workSeal    = "seal"    // a frozen segment into files of its own
	workDrop    = "drop"    // pieces of the journal whose records are sealed
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
	took    time.Duration // 0: as long as the call
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
	failed := map[string]bool{}
	for !s.ending() && s.oneWork(failed) {
		continue
	}
}

// oneWork does the most urgent piece of work that has not failed in this round, and reports whether there was one.
func (s *Store) oneWork(failed map[string]bool) bool {
	s.upkeepTurn <- struct{}{}
	defer func() { <-s.upkeepTurn }()
	for _, kind := range s.works() {
		if failed[kind.what] {
			continue
		}
		if some, err := s.try(kind); some {
			failed[kind.what] = err != nil
			return true
		}
	}
	return false
}

// try does a piece of one kind of work, if some is due and has not failed lately, and tells the observer.
func (s *Store) try(kind kindOfWork) (some bool, err error) {
	began := s.clock.Mono()
	if !s.patience.due(kind.what, began) {
		return false, nil
	}
	done, some, err := kind.try()
	if !some {
		s.patience.note(kind.what, nil, began) // what could not be done is not to be done any more
		return false, nil
	}
	if err != nil && s.ending() {
		return false, err
	}
	now := s.clock.Mono()
	s.patience.note(kind.what, err, now)
	done.what = kind.what
	if done.took == 0 {
		done.took = now - began
	}
	s.tell(done, err)
	return true, err
}

// kindOfWork is one kind of work; try does a piece of it if some is due.
type kindOfWork struct {
	what string
	try  func() (done work, some bool, err error)
}

// works are the kinds of work, the most urgent first. What gives room back comes first. A merge lets segments be sealed
// while it runs, so that neither waits until the other has nothing to do. Pieces are dropped meanwhile, since each waits
// for a commit; whoever has nothing else to do waits for them.
func (s *Store) works() []kindOfWork {
	return []kindOfWork{
		{workExpire, s.expireSome}, {workMerge, s.mergeSome}, {workSeal, s.sealOne}, {workDrop, s.dropAll}, {workRewrite, s.rewriteOne},
	}
}

func (s *Store) expireSome() (done work, some bool, err error) {
	files := s.expiredFiles()
	if files == nil {
		return done, false, nil
	}
	done, err = s.expire(files)
	return done, true, err
}

func (s *Store) sealOne() (done work, some bool, err error) {
	r, some := s.pieces.oldestFrozen()
	if some {
		if done, err = s.seal(r); err == nil {
			s.pace.sealed(done.records)
			if s.patience.due(workDrop, s.clock.Mono()) {
				err = s.startDrop()
			}
		}
	}
	return done, some, err
}

func (s *Store) mergeSome() (done work, some bool, err error) {
	now := s.shelves.present.Load()
	from, to, some := nextMerge(now.tiers(), s.options.hooks.tierFactor)
	if some {
		began := s.clock.Mono()
		s.pace.merging = 1
		done, err = s.merge(now, from, to)
		s.pace.merging = 0
		done.took += s.clock.Mono() - began
	}
	return done, some, err
}

func (s *Store) rewriteOne() (done work, some bool, err error) {
	f, stray := s.erasedFile(s.shelves.present.Load())
	switch {
	case len(stray) > 0:
		return done, true, s.flip(&flipOp{answer: newAnswer(), unmark: stray})
	case f != nil:
		done, err = s.rewrite(f)
		return done, true, err
	}
	return done, false, nil
}

func (s *Store) wakeUpkeep() {
	select {
	case s.upkeepDue <- struct{}{}:
	default:
	}
}

// tell tells the observer.
func (s *Store) tell(done work, err error) {
	if o := s.options.Observer; o != nil && o.Upkeep != nil {
		o.Upkeep(onefold.UpkeepEvent{
			At: s.clock.Wall(), Store: s.info.ID, Work: done.what, Records: done.records, Bytes: done.bytes, Took: done.took, Err: err,
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
		return sealed.Merge(w, sources, keep, func() error {
			done.took -= s.sealMeanwhile()
			return s.between()
		})
	})
	if err != nil {
		return done, err
	}
	done.records, done.bytes = int(merged.head.Records), merged.bytes
	return done, s.flip(&flipOp{answer: newAnswer(), change: change{addIndexes: []*indexFile{merged}, dropIndexes: old}})
}

// sealMeanwhile seals a segment that waits, for work that can take longer than a segment takes to be full. It returns
// how long that took. What fails is told, and tried again later.
func (s *Store) sealMeanwhile() time.Duration {
	if s.pieces.state().frozen == 0 || s.ending() {
		return 0
	}
	began := s.clock.Mono()
	_, _ = s.try(kindOfWork{workSeal, s.sealOne})
	return s.clock.Mono() - began
}

// expiredFiles returns the segments without a record that counts, and indexes that point to no segment, or nil.
func (s *Store) expiredFiles() *change {
	now, clock := s.shelves.present.Load(), s.now()
	// While the journal has a part of a segment, what is erased of it is marked in the file.
	first := s.firstLeftover()
	due := func(f *segmentFile) bool { return f.head.Expires <= clock && f.head.End <= first }
	if !slices.ContainsFunc(now.segments, due) {
		return nil
	}
	owned := s.ownedSegments(now)
	c := &change{}
	var left []positions
	for _, f := range now.segments {
		if due(f) && !owned[f] {
			c.dropSegments = append(c.dropSegments, f)
		} else {
			left = append(left, positions{f.head.First, f.head.End})
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
	}
	for _, f := range c.dropIndexes {
		done.bytes += f.bytes
	}
	return done, s.flip(flip)
}

// erasedFile returns a segment file that holds something that was erased long enough ago that what else was
// erased at that time is gone from it as well. stray are marks of records that are nowhere any more.
func (s *Store) erasedFile(now *shelf) (f *segmentFile, stray []uint64) {
	for _, at := range s.marks.before(s.clock.Mono() - s.options.hooks.eraseLag) {
		switch found := now.segment(at); {
		case found != nil:
			f = found
		case !s.pieces.has(at):
			stray = append(stray, at)
		}
	}
	return f, stray
}

// ownedSegments are the segments that have a record with an unsettled row.
func (s *Store) ownedSegments(now *shelf) map[*segmentFile]bool {
	owned := map[*segmentFile]bool{}
	for _, at := range s.rows.records() {
		if f := now.segment(at); f != nil {
			owned[f] = true
		}
	}
	return owned
}

// records are the positions of the records with unsettled rows.
func (q *rowQueue) records() []uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Keys(q.owners))
}
