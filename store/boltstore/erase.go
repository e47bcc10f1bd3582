package boltstore

import (
	"context"
	"fmt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// Erase implements [onefold.Store]. When the bytes are gone from the disk: those in a segment file when it is written
// anew, which is done about a minute later, while the store is open ([Storage].Erased falls to 0, the observer is told of a
// "rewrite"); those in main.db when their pages are used again, or by [Compact]. Backups keep theirs.
func (s *Store) Erase(ctx context.Context, k onefold.Key) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	canon := canonOf(&k)
	o := &eraseOp{answer: newAnswer(), key: k, canon: canon, hash: s.hash(canon)}
	if err := s.queue.add(o); err != nil {
		return err
	}
	if err := o.wait(ctx); err != nil {
		return err
	}
	if o.err != nil {
		return o.err
	}
	return o.refused
}

// eraseOp is one call of Erase on its way.
type eraseOp struct {
	answer
	key     onefold.Key
	canon   []byte
	hash    uint64
	list    []uint64 // positions in the journal whose records may be of the key
	sealed  []found  // its records in segment files
	known   bool     // there was something of the key
	expired uint64   // position of the expired record that goes; 0: none
	marks   map[uint64][]byte
	calmed  []uint64 // see flight
	refused error
}

func (o *eraseOp) weight() load {
	return load{entries: 1, bytes: recordHead + digestLen + sum.Len + leafElementLen, puts: 2}
}

// prepare forgets the history of the key at once: what is counted from now on is of an attempt that began
// after the erasure.
func (o *eraseOp) prepare(g *group) {
	s := g.store
	if s.shelves.present.Load().mayHave(o.hash) {
		if o.sealed, o.refused = s.allSealed(o.hash, o.canon); o.refused != nil {
			return
		}
	}
	st := s.stripe(o.hash)
	st.mu.Lock()
	if c := st.claim(o.hash, &o.key); c != nil && c.live(s.clock.Mono()) {
		o.refused = fmt.Errorf("%w: %v is running", onefold.ErrBusy, o.key)
		st.mu.Unlock()
		return
	}
	o.list = st.candidates(nil, o.hash, 0)
	h := st.history[s.historyName(o.canon, o.hash)]
	if h != nil {
		st.forget(h)
	}
	st.mu.Unlock()
	if h != nil {
		o.known = true
		g.changed = append(g.changed, h)
		g.history = append(g.history, s.collectHistory([]*history{h})...)
	}
	// Each row that ends changes some pages.
	g.load.puts += 2*len(s.rows.withHash(o.hash)) + len(s.attention[o.hash])
}

func (o *eraseOp) apply(g *group) error {
	if o.refused == nil {
		return o.erase(g)
	}
	return nil
}

func (o *eraseOp) erase(g *group) error {
	if err := o.eraseRecords(g); err != nil {
		return err
	}
	if err := o.eraseRows(g); err != nil {
		return err
	}
	var err error
	if o.calmed, err = g.settleAttention(o.hash, o.canon); err != nil {
		return err
	}
	if !o.known && len(o.calmed) == 0 {
		o.refused = fmt.Errorf("%w: %v", onefold.ErrNotFound, o.key)
	}
	return nil
}

// publish takes the expired record out of the index, and lets the marks count.
func (o *eraseOp) publish(g *group) {
	for at, mark := range o.marks {
		g.store.marks.set(at, mark, g.store.clock.Mono())
	}
	g.store.attention.leave(o.hash, o.calmed)
	if o.expired == 0 {
		return
	}
	st := g.store.stripe(o.hash)
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.active.leave(o.hash, o.expired) {
		g.store.records.Add(-1)
	}
}

// eraseRecords erases all records of the key: the one that counts, and those that have expired and are still
// somewhere.
func (o *eraseOp) eraseRecords(g *group) error {
	for _, at := range o.list {
		f, err := g.store.findIn(&g.b, []uint64{at}, o.hash, o.canon)
		if err == nil && f.position != 0 {
			err = o.eraseRecord(g, &f)
		}
		if err != nil {
			return err
		}
	}
	for i := range o.sealed {
		if err := o.eraseRecord(g, &o.sealed[i]); err != nil {
			return err
		}
	}
	return nil
}

// eraseRecord leaves a mark in place of a record that still dedupes, and nothing of an expired one. In a segment
// that is not changed any more the mark is put beside it, until the segment is written anew.
func (o *eraseOp) eraseRecord(g *group, f *found) error {
	r, active := f.record, g.isActive(f.position)
	alive, erased := g.store.alive(f.position, f.record.expires, g.now), f.record.flags&recordErased != 0
	o.known = o.known || alive || !erased // what is erased and has expired is nothing any more
	switch {
	case active && !alive:
		o.expired = f.position
		return g.b.journal.remove(f.position)
	case erased:
		return nil
	}
	r.form = digestOf(o.canon, o.hash, g.store.hashKey)
	if r.flags&recordHasResult != 0 && len(r.result) > 0 {
		r.flags |= recordResultLost
	}
	r.flags = r.flags&^recordHasResult | recordErased
	r.result = nil
	mark := r.append(make([]byte, 0, r.size()))
	if active {
		return g.b.journal.put(f.position, mark)
	}
	if o.marks == nil {
		o.marks = map[uint64][]byte{}
	}
	o.marks[f.position] = mark
	return g.b.erased.put(position(f.position), mark)
}

// eraseRows ends all rows of the key, those of earlier records of it too.
func (o *eraseOp) eraseRows(g *group) error {
	for _, at := range g.store.rows.withHash(o.hash) {
		p := g.row(at)
		if p == nil || p.gone {
			continue
		}
		stored, err := g.b.rowsOf(p.filedParked).get(position(at))
		if err != nil {
			return err
		}
		s, err := parseSummary(stored)
		if err != nil {
			return unreadable(err, "row %d", at)
		}
		if string(s.canon) != string(o.canon) {
			continue // another key of the same hash
		}
		o.known = true
		if err := g.endRow(p); err != nil {
			return err
		}
	}
	return nil
}

// withHash returns the positions of the rows of keys with this hash.
func (q *rowQueue) withHash(hash uint64) (list []uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for r := q.ofHash[hash]; r != nil; r = r.older {
		list = append(list, r.position)
	}
	return list
}
