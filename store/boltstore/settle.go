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
		if err := s.checkSettlement(&all[i]); err != nil {
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
			State: one.State, At: one.At, Uncounted: one.Uncounted, Hold: one.Hold, Untried: one.Untried, Reason: onefold.TruncateReason(one.Reason),
		}
	}
	s.rows.begin(o)
	if err := s.queue.add(o); err != nil {
		o.finish(err)
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

// settleOp is one call of Settle on its way.
type settleOp struct {
	answer
	settlements []onefold.Settlement
	load        load
	feed        *feed // kept until the answer; nil: none of the rows is out
	lost        error // first settlement that could not be recorded
}

func final(s onefold.State) bool { return s == onefold.Sent || s == onefold.Discarded }

// begin adds up what the op takes. It renews the lease of the feed whose rows the op names, and keeps it while
// the op is on the way, whatever time the disk takes; see feed.lapse.
func (q *rowQueue) begin(o *settleOp) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range o.settlements {
		one := &o.settlements[i]
		t := one.Row.Handle.(ticket)
		o.load.add(load{entries: 1})
		r := q.refs[t.position]
		if r == nil || t.store != q.store {
			continue
		}
		o.load.puts++
		if r.timer != "" {
			o.load.puts++
		}
		if !final(one.State) {
			o.load.add(load{grows: true, puts: 1, bytes: r.size + onefold.MaxReasonBytes + leafElementLen, largest: r.size + onefold.MaxReasonBytes})
		}
		if o.feed == nil && r.feed != nil && r.ticket == t.ticket && r.feed.live() {
			o.feed = r.feed
			o.feed.begin(&o.feed.writing)
		}
	}
}

// finish answers the caller; the lease of the feed runs from here.
func (o *settleOp) finish(err error) {
	if o.feed != nil {
		q := &o.feed.store.rows
		q.mu.Lock()
		o.feed.done(&o.feed.writing)
		q.mu.Unlock()
	}
	o.answer.finish(err)
}

// overtaken notes that the row of a settlement has changed hands before the settlement was durable. Rows
// that have ended are none of this.
func (o *settleOp) overtaken(effect string) {
	if o.lost == nil {
		o.lost = fmt.Errorf("%w: row %s changed hands meanwhile", onefold.ErrLost, effect)
	}
}

func (o *settleOp) weight() load { return o.load }

func (o *settleOp) prepare(*group) {}
func (o *settleOp) publish(*group) {}

func (o *settleOp) apply(g *group) error {
	o.lost = nil
	for i := range o.settlements {
		lost, err := g.settle(o, &o.settlements[i])
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
func (g *group) settle(o *settleOp, one *onefold.Settlement) (lost, err error) {
	t := one.Row.Handle.(ticket)
	if t.store != g.store {
		return fmt.Errorf("%w: row %s was handed out before this Open", onefold.ErrLost, one.Row.Effect.ID), nil
	}
	p := g.row(t.position)
	switch {
	case p == nil || p.gone:
		if final(one.State) {
			return nil, nil // it has ended before, one way or the other
		}
		return fmt.Errorf("%w: row %s has ended", onefold.ErrLost, one.Row.Effect.ID), nil
	case t.ticket == p.settledTicket && one.State == p.settledState:
		return nil, nil // this very settlement, repeated
	case t.ticket != p.ticket || !g.holds(p.feed):
		return fmt.Errorf("%w: row %s is not held any more", onefold.ErrLost, one.Row.Effect.ID), nil
	case p.parked && one.State == onefold.Tried:
		return fmt.Errorf("%w: row %s is parked and cannot be tried", onefold.ErrInvalid, one.Row.Effect.ID), nil
	case final(one.State):
		return nil, g.endRow(p)
	}
	p.settled = append(p.settled, settledBy{o, one.Row.Effect.ID})
	g.keep(p, one)
	return nil, g.rewrite(p, one.Reason)
}

// holds reports whether the feed that has a row still has it.
func (g *group) holds(f *feed) bool {
	if f == nil {
		return true // parked: a person has it
	}
	q := &g.store.rows
	q.mu.Lock()
	defer q.mu.Unlock()
	return f.live()
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
		p.tried = p.tried && !one.Untried
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

// rewrite puts a row with its planned state where it belongs.
func (g *group) rewrite(p *planned, reason string) error {
	p.changed = true
	key := position(p.ref.position)
	source, target := g.b.rowsOf(p.filedParked), g.b.rowsOf(p.parked)
	stored, err := source.get(key)
	if err != nil {
		return err
	}
	old, err := parseRowHead(stored)
	if err != nil {
		return unreadable(err, "row %d", p.ref.position)
	}
	head := p.head(old)
	if p.parked && !p.filedParked {
		head.parkedAt = g.wall.UnixNano()
	}
	value, err := rewriteRow(stored, head, reason)
	if err != nil {
		return unreadable(err, "row %d", p.ref.position)
	}
	if source != target {
		if err := source.remove(key); err != nil {
			return err
		}
	}
	p.filedParked = p.parked
	return target.put(key, value)
}

// endRow removes a row.
func (g *group) endRow(p *planned) error {
	p.changed, p.gone = true, true
	if p.ref.timer != "" {
		timer := timerKey(p.ref.timer)
		stored, err := g.b.timers.get(timer)
		if err != nil {
			return err
		}
		if at, err := parseTimerValue(stored); err == nil && at == p.ref.position {
			if err := g.b.timers.remove(timer); err != nil {
				return err
			}
		}
	}
	return g.b.rowsOf(p.filedParked).remove(position(p.ref.position))
}
