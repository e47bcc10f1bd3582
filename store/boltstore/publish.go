package boltstore

import (
	"errors"

	"github.com/onefold-go/onefold"
)

// publish makes durable entries visible. Rows come before records: who finds a record must not take its
// effects for settled.
func (op *commitOp) publish(g *group) {
	op.publishRows(g)
	for i := range op.flights {
		f := &op.flights[i]
		if f.claim == nil {
			continue
		}
		st := g.store.stripe(f.claim.hash)
		st.mu.Lock()
		switch {
		case f.existing != nil || errors.Is(f.err, onefold.ErrLost):
			st.drop(f.claim)
		case f.err != nil:
			f.claim.land()
		default:
			if st.active.enter(f.claim.hash, f.position, f.claim.replaces) {
				g.store.records.Add(1)
			}
			f.publishAttention(g.store.attention)
			st.drop(f.claim)
			if f.history != nil {
				st.forget(f.history)
			}
		}
		st.mu.Unlock()
	}
}

func (op *commitOp) publishRows(g *group) {
	q := &g.store.rows
	locked := false
	for i := range op.flights {
		if op.flights[i].encoded.more == nil {
			continue
		}
		for _, r := range op.flights[i].encoded.more.refs {
			if !locked {
				q.mu.Lock()
				defer q.mu.Unlock()
				locked = true
			}
			if p := g.rows[r.position]; p != nil {
				delete(g.rows, r.position)
				if p.gone {
					continue // replaced by a later entry of the group
				}
			}
			q.add(r)
		}
	}
}

// land gives a claim back to its holder, with a fresh lease, after a commit that stored nothing. A claim
// that the store had made for the entry ends instead: nobody holds it.
func (c *claim) land() {
	c.flight = nil
	if (c.holder == onefold.Holder{}) {
		c.store.stripe(c.hash).drop(c)
		return
	}
	c.state = held
	c.ends = later(c.store.clock.Mono(), c.lease)
}

// finish answers the callers. After ErrUnknown the claims stay frozen: the entries may be stored.
func (op *commitOp) finish(err error) {
	if err != nil {
		for i := range op.flights {
			f := &op.flights[i]
			f.err, f.existing = err, nil
			if f.claim == nil || errors.Is(err, onefold.ErrUnknown) {
				continue
			}
			st := f.claim.store.stripe(f.claim.hash)
			st.mu.Lock()
			f.claim.land()
			st.mu.Unlock()
		}
	}
	op.answered.finish(err)
}
