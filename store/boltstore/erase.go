package boltstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/onefold-go/onefold"
)

// Erase implements [onefold.Store]. The pages that held the erased bytes are free afterwards and are
// overwritten as the file is written to; whoever needs them gone from the disk at once compacts the file.
func (s *Store) Erase(ctx context.Context, k onefold.Key) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	canon := k.Append(nil)
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
	first   uint64
	more    []uint64
	known   bool   // there was something of the key
	expired uint64 // position of the expired record that goes; 0: none
	refused error
}

func (o *eraseOp) weight() load {
	return load{entries: 1, bytes: recordHead + digestLen + sumLen + leafElementLen, puts: 2}
}

// prepare forgets the history of the key at once: what is counted from now on is of an attempt that began
// after the erasure.
func (o *eraseOp) prepare(g *group) {
	s := g.store
	st := s.stripe(o.hash)
	st.mu.Lock()
	if c := st.claim(o.hash, &o.key); c != nil && c.live(s.clock.Mono()) {
		o.refused = fmt.Errorf("%w: %v is running", onefold.ErrBusy, o.key)
		st.mu.Unlock()
		return
	}
	first, more := st.positions(o.hash)
	o.first, o.more = first, slices.Clone(more)
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
	g.load.puts += 2 * len(s.rows.withHash(o.hash))
}

func (o *eraseOp) apply(g *group) error {
	if o.refused == nil {
		return o.erase(g)
	}
	return nil
}

func (o *eraseOp) erase(g *group) error {
	if err := o.eraseRecord(g); err != nil {
		return err
	}
	if err := o.eraseRows(g); err != nil {
		return err
	}
	if !o.known {
		o.refused = fmt.Errorf("%w: %v", onefold.ErrNotFound, o.key)
	}
	return nil
}

// publish takes the expired record out of the index.
func (o *eraseOp) publish(g *group) {
	if o.expired == 0 {
		return
	}
	st := g.store.stripe(o.hash)
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.leave(o.hash, o.expired) {
		g.store.records.Add(-1)
	}
}

// eraseRecord leaves a mark in place of a record that still dedupes, and nothing of an expired one.
func (o *eraseOp) eraseRecord(g *group) error {
	if o.first == 0 {
		return nil
	}
	found, err := findIn(&g.b, o.first, o.more, o.hash, o.canon, g.store.hashKey)
	if err != nil || found.position == 0 {
		return err
	}
	o.known = true
	r := found.record
	switch {
	case !g.store.alive(found.position, r.expires, g.now):
		o.expired = found.position
		return g.b.segment.remove(position(found.position))
	case r.flags&recordErased != 0:
		return nil
	}
	r.form = digestOf(o.canon, o.hash, g.store.hashKey)
	if r.flags&recordHasResult != 0 && len(r.result) > 0 {
		r.flags |= recordResultLost
	}
	r.flags = r.flags&^recordHasResult | recordErased
	r.result = nil
	return g.b.segment.put(position(found.position), r.append(make([]byte, 0, r.size())))
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
