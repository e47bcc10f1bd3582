package boltstore

import (
	"slices"
	"sync"
	"time"
)

// piece is one piece of the journal; see journal.
type piece struct {
	first   uint64
	records int // that were added; some of them may be gone
}

// run is a row of pieces: a segment before it is sealed.
type run struct {
	positions
	pieces []piece
}

func (r *run) records() (n int) {
	for _, p := range r.pieces {
		n += p.records
	}
	return n
}

// pieces is what memory holds of the pieces of the journal. The writer changes it.
//
// The segment that grows is the active one. When it is full or old it is frozen: nothing in it is changed any
// more, and the upkeep seals it. Its pieces are dropped after that.
type pieces struct {
	mu     sync.Mutex
	sealed []piece // their records are in segment files
	frozen []run   // oldest first
	active run
	since  time.Duration // store clock of the first record of the active segment
}

// state is what decides about freezing.
func (p *pieces) state() activeState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return activeState{records: p.active.records(), since: p.since, frozen: len(p.frozen)}
}

// activeRun returns the active segment for a group, which changes its own copy.
func (p *pieces) activeRun() run {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.active
	r.pieces = slices.Clone(r.pieces)
	return r
}

// grow notes the active segment as a group has left it.
func (p *pieces) grow(r run, now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active.records() == 0 {
		p.since = now
	}
	p.active = r
}

// freeze ends the active segment before position end.
func (p *pieces) freeze(end uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active.end = end
	p.frozen = append(p.frozen, p.active)
	p.active = run{}
}

// oldestFrozen returns the segment to be sealed next.
func (p *pieces) oldestFrozen() (run, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.frozen) == 0 {
		return run{}, false
	}
	return p.frozen[0], true
}

// seal notes that the oldest frozen segment is sealed.
func (p *pieces) seal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sealed = append(p.sealed, p.frozen[0].pieces...)
	p.frozen = slices.Delete(p.frozen, 0, 1)
}

// leftover returns a piece to be dropped.
func (p *pieces) leftover() (piece, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.sealed) == 0 {
		return piece{}, false
	}
	return p.sealed[0], true
}

// dropped notes that the first leftover piece is gone.
func (p *pieces) dropped() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sealed = slices.Delete(p.sealed, 0, 1)
}

// has reports whether a position is in a segment that is not sealed.
func (p *pieces) has(at uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.frozen {
		if p.frozen[i].first <= at && at < p.frozen[i].end {
			return true
		}
	}
	return len(p.active.pieces) > 0 && p.active.first <= at
}

// counts returns how many records the active and the frozen segments have.
func (p *pieces) counts() (active, frozen int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.frozen {
		frozen += p.frozen[i].records()
	}
	return p.active.records(), frozen
}

// addRecord puts a record into the active segment.
func (g *group) addRecord(at uint64, record []byte) error {
	if g.active == nil {
		r := g.store.pieces.activeRun()
		g.active = &r
	}
	n := len(g.active.pieces)
	if n == 0 || g.active.pieces[n-1].records >= g.store.options.hooks.pieceRecords {
		if err := g.b.journal.cut(at); err != nil {
			return err
		}
		if n == 0 {
			g.active.first = at
		}
		g.active.pieces = append(g.active.pieces, piece{first: at})
		n++
	}
	g.active.pieces[n-1].records++
	return g.b.journal.add(at, record)
}

// isActive reports whether a position is in the active segment, which alone is changed.
func (g *group) isActive(at uint64) bool {
	if g.active != nil {
		return len(g.active.pieces) > 0 && g.active.first <= at
	}
	p := &g.store.pieces
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.active.pieces) > 0 && p.active.first <= at
}

// freezeIfDue freezes the active segment if it is full or old. The writer calls it between groups.
func (s *Store) freezeIfDue() {
	head := s.loadHead()
	if !shouldFreeze(s.pieces.state(), s.now(), head.longest, s.options.SegmentRecords) {
		return
	}
	for i := range s.stripes {
		st := &s.stripes[i]
		st.mu.Lock()
		st.freeze()
		st.mu.Unlock()
	}
	s.pieces.freeze(head.position + 1)
	s.wakeUpkeep()
}
