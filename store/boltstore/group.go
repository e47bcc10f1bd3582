package boltstore

import (
	"time"

	bolt "go.etcd.io/bbolt"
)

// group is one physical write: the ops that share a bbolt transaction.
type group struct {
	store   *Store
	ops     []op
	load    load
	tx      *bolt.Tx
	b       buckets
	head    head // as it will be after the group
	closed  bool // the snapshot is closed until the group is written, and its lock held
	now     time.Duration
	wall    time.Time
	changed []*history
	history []historyWrite
	active  *run // the active segment with what the group adds; nil: nothing yet

	// rows are the planned states of rows that ops of this group have touched. They become true when the
	// group is durable; a failed group just drops them.
	rows map[uint64]*planned

	// Joins may need several tries of the transaction.
	joined   joined        // by the present try
	joinTime time.Duration // spent in joins, by all tries
	failures int           // of joins
	putOff   []op          // ops that come into the next group, in order
}

// planned is the state that a row will have.
type planned struct {
	ref *rowRef
	rowState
	seen        uint64 // the ticket that the row had when it was looked at
	filedParked bool   // the file has it among the parked rows
	changed     bool   // else an op has only looked at it
	gone        bool
	settled     []settledBy // settlements after which it stays
}

// settledBy is a settlement of a row with this effect.
type settledBy struct {
	op     *settleOp
	effect string
}

// next gives out a journal position.
func (g *group) next() uint64 {
	g.head.position++
	return g.head.position
}

// row returns the state of a row as earlier ops of the group have left it, or nil if there is none.
func (g *group) row(position uint64) *planned {
	if p := g.rows[position]; p != nil {
		return p
	}
	q := &g.store.rows
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.refs[position]
	if r == nil {
		return nil
	}
	return g.plan(r)
}

// plan takes a row as it is now.
func (g *group) plan(r *rowRef) *planned {
	p := &planned{ref: r, rowState: r.rowState, seen: r.ticket, filedParked: r.filedParked}
	if g.rows == nil {
		g.rows = map[uint64]*planned{}
	}
	g.rows[p.ref.position] = p
	return p
}

// begin makes the group ready for a try: what an earlier try has planned is forgotten.
func (g *group) begin(tx *bolt.Tx) (err error) {
	g.tx, g.head, g.rows, g.joined = tx, g.store.loadHead(), nil, joined{}
	g.active = nil
	g.head.clock = g.now
	g.next() // of nothing: each group moves the position, so that an older copy of the file has a lower one
	if g.b, err = bucketsOf(tx); err == nil {
		g.b.countIn(&g.head.tally)
	}
	return err
}

// apply runs all ops in the transaction.
func (g *group) apply() error {
	if err := applyHistory(&g.b.history, g.history); err != nil {
		return err
	}
	for i, o := range g.ops {
		if g.fullBefore(i) {
			g.delay(i)
			break
		}
		if err := o.apply(g); err != nil {
			return err
		}
	}
	return putHead(g.b.meta, &g.head)
}

// publish makes the group visible: new rows, then records, then what became of older rows.
func (g *group) publish() {
	if g.active != nil {
		g.store.pieces.grow(*g.active, g.now)
	}
	for _, o := range g.ops {
		o.publish(g)
	}
	if len(g.rows) == 0 {
		return
	}
	q := &g.store.rows
	q.mu.Lock()
	defer q.mu.Unlock()
	for position, p := range g.rows {
		if q.refs[position] != p.ref || !p.changed {
			continue // came and went within the group, or was only looked at
		}
		p.ref.filedParked = p.filedParked
		switch {
		case p.gone:
			q.remove(p.ref)
		case p.ref.ticket != p.seen:
			// Its feed was closed and another one has it. What was settled is not true any more, so only what
			// the file says is noted; the one who has it decides.
			q.filed(p.ref, p.attempts)
			for _, by := range p.settled {
				by.op.overtaken(by.effect)
			}
		default:
			q.change(p.ref, p.rowState)
		}
	}
}
