package boltstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/onefold-go/onefold"
)

// Settle implements [onefold.Store]. All settlements are recorded in one step, in the order of the queue
// that commits go through.
func (s *Store) Settle(ctx context.Context, all []onefold.Settlement) error {
	for i := range all {
		if err := checkSettlement(&all[i]); err != nil {
			return fmt.Errorf("settlement %d: %w", i, err)
		}
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	if len(all) == 0 {
		return nil
	}
	o := &settleOp{answer: newAnswer(), settlements: make([]onefold.Settlement, len(all))}
	for i, one := range all {
		// Only these fields are kept, so that the row stays the caller's.
		o.settlements[i] = onefold.Settlement{
			Row:   onefold.Row{Handle: one.Row.Handle, Effect: onefold.Effect{ID: one.Row.Effect.ID}},
			State: one.State, At: one.At, Uncounted: one.Uncounted, Hold: one.Hold, Reason: truncate(one.Reason),
		}
	}
	o.bytes = s.rows.rewriteBytes(o.settlements)
	if err := s.queue.add(o); err != nil {
		return err
	}
	if err := o.wait(ctx); err != nil {
		return err
	}
	if o.err != nil {
		return settleError(o.err, all)
	}
	return o.lost
}

// settleError hides a full disk from settlements that only free room: they cannot be done now, and are
// to be repeated.
func settleError(err error, all []onefold.Settlement) error {
	if !errors.Is(err, onefold.ErrFull) {
		return err
	}
	for i := range all {
		if all[i].State != onefold.Sent && all[i].State != onefold.Discarded {
			return err
		}
	}
	return fmt.Errorf("%w: %s", onefold.ErrUnavailable, err.Error())
}

func checkSettlement(one *onefold.Settlement) error {
	if _, ok := one.Row.Handle.(ticket); !ok {
		return fmt.Errorf("%w: Row.Handle is %v; settle rows from Next, or parked ones from Scan", onefold.ErrInvalid, one.Row.Handle)
	}
	if one.State < onefold.Sent || one.State > onefold.Discarded {
		return fmt.Errorf("%w: State is %d; use one of the constants", onefold.ErrInvalid, one.State)
	}
	return nil
}

// settleOp is one call of Settle on its way.
type settleOp struct {
	answer
	settlements []onefold.Settlement
	bytes       int
	lost        error // first settlement that could not be recorded
}

// rewriteBytes is how much is written again for settlements after which the row stays.
func (q *rowQueue) rewriteBytes(all []onefold.Settlement) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for i := range all {
		if all[i].State == onefold.Sent || all[i].State == onefold.Discarded {
			continue
		}
		if r := q.refs[all[i].Row.Handle.(ticket).position]; r != nil {
			n += r.size + onefold.MaxReasonBytes
		}
	}
	return n
}

func (o *settleOp) weight() load {
	n := len(o.settlements)
	return load{entries: n, bytes: o.bytes, puts: 4 * n}
}

func (o *settleOp) prepare(*group) {}
func (o *settleOp) publish(*group) {}

func (o *settleOp) apply(g *group) error {
	o.lost = nil
	for i := range o.settlements {
		lost, err := g.settle(&o.settlements[i])
		if err != nil {
			return err
		}
		if lost != nil && o.lost == nil {
			o.lost = lost
		}
	}
	return nil
}

// settle records what became of one row. lost tells why this one could not be recorded.
func (g *group) settle(one *onefold.Settlement) (lost, err error) {
	t := one.Row.Handle.(ticket)
	final := one.State == onefold.Sent || one.State == onefold.Discarded
	p := g.row(t.position)
	switch {
	case p == nil || p.gone:
		if final {
			return nil, nil // it has ended before, one way or the other
		}
		return fmt.Errorf("%w: row %s has ended", onefold.ErrLost, one.Row.Effect.ID), nil
	case t.ticket == p.settledTicket && one.State == p.settledState:
		return nil, nil // this very settlement, repeated
	case t.ticket != p.ticket || !g.renewFeed(p.feed):
		return fmt.Errorf("%w: row %s is not held any more", onefold.ErrLost, one.Row.Effect.ID), nil
	case p.parked && one.State == onefold.Tried:
		return fmt.Errorf("%w: row %s is parked and cannot be tried", onefold.ErrInvalid, one.Row.Effect.ID), nil
	case final:
		return nil, g.endRow(p)
	}
	from := p.parked
	g.keep(p, one)
	return nil, g.rewrite(p, from, one.Reason)
}

// renewFeed reports whether the feed that has a row still has it, and renews its lease.
func (g *group) renewFeed(f *feed) bool {
	if f == nil {
		return true // parked: a person has it
	}
	q := &g.store.rows
	q.mu.Lock()
	defer q.mu.Unlock()
	if !f.live() {
		return false
	}
	f.asked = g.store.clock.Mono()
	return true
}

// keep plans the state of a row that stays.
func (g *group) keep(p *planned, one *onefold.Settlement) {
	if one.State == onefold.Tried {
		p.tried = true // and stays out
		return
	}
	p.settledTicket, p.settledState = p.ticket, one.State
	p.ticket, p.feed = 0, nil
	p.parked, p.keepsOrder = one.State == onefold.Parked, one.Hold
	if p.parked {
		return
	}
	p.tried, p.keepsOrder = false, false
	p.delayed, p.delay = noTime, 0
	if !one.At.IsZero() {
		p.delayed, p.delay = unixOrNone(one.At), later(g.now, max(one.At.Sub(g.wall), 0))
	}
	if one.Uncounted {
		p.attempts--
	}
}

// rewrite puts a row with its planned state where it belongs. from tells whether it was parked.
func (g *group) rewrite(p *planned, from bool, reason string) error {
	key := position(p.ref.position)
	source, target := g.b.rows, g.b.rows
	if from {
		source = g.b.parked
	}
	if p.parked {
		target = g.b.parked
	}
	stored := source.Get(key)
	if len(stored) < 2 {
		return fmt.Errorf("%w: row %d is missing", onefold.ErrDamaged, p.ref.position)
	}
	value, err := rewriteRow(stored, p.head(p.ref, stored[1]), reason)
	if err != nil {
		return fmt.Errorf("%w: row %d: %w", onefold.ErrDamaged, p.ref.position, err)
	}
	if source != target {
		if err := source.Delete(key); err != nil {
			return err
		}
	}
	return target.Put(key, value)
}

// endRow removes a row.
func (g *group) endRow(p *planned) error {
	p.gone = true
	key := position(p.ref.position)
	bucket := g.b.rows
	if p.parked {
		bucket = g.b.parked
	}
	if p.ref.timer != "" {
		timer := timerKey(p.ref.timer)
		if at, err := parsePosition(g.b.timers.Get(timer)); err == nil && at == p.ref.position {
			if err := g.b.timers.Delete(timer); err != nil {
				return err
			}
		}
	}
	return bucket.Delete(key)
}
