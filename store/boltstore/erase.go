package boltstore

import (
	"context"
	"fmt"

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
	refused error
}

func (o *eraseOp) weight() load {
	return load{entries: 1, bytes: recordHead + maxRawKey, puts: 64}
}

func (o *eraseOp) publish(*group) {}

func (o *eraseOp) prepare(g *group) {
	s := g.store
	st := s.stripe(o.hash)
	st.mu.Lock()
	defer st.mu.Unlock()
	if c := st.claim(o.hash, &o.key); c != nil && c.live(s.clock.Mono()) {
		o.refused = fmt.Errorf("%w: %v is running", onefold.ErrBusy, o.key)
		return
	}
	o.first, o.more = st.positions(o.hash)
	// Each row that ends changes some pages; what has been bounded for an op without rows may not do.
	g.load.puts += 4 * s.rows.count(o.hash)
}

func (o *eraseOp) apply(g *group) error {
	if o.refused == nil {
		return o.erase(g)
	}
	return nil
}

func (o *eraseOp) erase(g *group) error {
	var found found
	if o.first != 0 {
		var err error
		if found, err = findIn(&g.b, o.first, o.more, o.canon); err != nil {
			return err
		}
	}
	if found.position == 0 || g.now >= found.record.expires {
		o.refused = fmt.Errorf("%w: %v", onefold.ErrNotFound, o.key)
		return nil
	}
	r := found.record
	if r.flags&recordErased == 0 {
		r.form = digestOf(o.canon, o.hash, o.key.Gen)
		if r.flags&recordHasResult != 0 && len(r.result) > 0 {
			r.flags |= recordResultLost
		}
		r.flags = r.flags&^recordHasResult | recordErased
		r.result = nil
		if err := g.b.segment.Put(position(found.position), r.append(nil)); err != nil {
			return err
		}
	}
	return o.eraseRows(g)
}

// eraseRows ends all rows of the key, those of earlier records of it too.
func (o *eraseOp) eraseRows(g *group) error {
	for _, at := range g.store.rows.of(o.hash) {
		p := g.row(at)
		if p == nil || p.gone {
			continue
		}
		bucket := g.b.rows
		if p.parked {
			bucket = g.b.parked
		}
		s, err := parseSummary(bucket.Get(position(at)))
		if err != nil {
			return fmt.Errorf("%w: row %d: %w", onefold.ErrDamaged, at, err)
		}
		if string(s.canon) != string(o.canon) {
			continue // another key of the same hash
		}
		if err := g.endRow(p); err != nil {
			return err
		}
	}
	return nil
}

// of returns the positions of the rows of keys with this hash.
func (q *rowQueue) of(hash uint64) []uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []uint64
	for at, r := range q.refs {
		if r.hash == hash {
			list = append(list, at)
		}
	}
	return list
}

func (q *rowQueue) count(hash uint64) int { return len(q.of(hash)) }
