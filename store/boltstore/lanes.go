package boltstore

import (
	"slices"
	"time"
)

// lane is one OrderKey: its rows in commit order, without those that are parked and hold nobody up. Only
// the first can be handed out, and only while none is out.
type lane struct {
	rows      []*rowRef
	out       *rowRef
	scheduled *rowRef
}

// moment is one reading of both clocks. What is decided together is decided by one, or a wall clock that is
// set in between would make a row due and not due at once.
type moment struct {
	wall  int64 // Unix nanoseconds
	store time.Duration
}

func (q *rowQueue) moment() moment {
	return moment{q.store.clock.Wall().UnixNano(), q.store.now()}
}

// delayedAt reports whether the row is delayed.
func (r *rowRef) delayedAt(m moment) bool {
	return r.delayed != noTime && r.delayed > m.wall && r.delay > m.store
}

// place puts r where its state belongs, and lets the next of its lane move up.
func (q *rowQueue) place(r *rowRef) {
	m := q.moment()
	q.unschedule(r)
	q.age(r, m)
	if r.orderKey == "" {
		if r.waiting() {
			q.schedule(r, m)
		}
		return
	}
	l := q.lanes[r.orderKey]
	if l == nil {
		l = &lane{}
		q.lanes[r.orderKey] = l
	}
	if l.scheduled == r {
		l.scheduled = nil
	}
	if l.out == r && r.feed == nil {
		l.out = nil
	}
	l.keep(r)
	if len(l.rows) == 0 {
		delete(q.lanes, r.orderKey)
		return
	}
	q.promote(l, m)
}

// age notes whether the row counts as waiting.
func (q *rowQueue) age(r *rowRef, m moment) {
	counts, in := !r.parked && !r.delayedAt(m) && r.notBefore <= m.wall, r.at[q.aging.slot].index > 0
	switch {
	case counts && !in:
		q.aging.push(r, int64(r.position))
	case !counts && in:
		q.aging.remove(r)
	}
}

// keep makes r a row of the lane if it blocks later ones, and takes it out if not.
func (l *lane) keep(r *rowRef) {
	if n := len(l.rows); r.blocks() && (n == 0 || l.rows[n-1].position < r.position) {
		l.rows = append(l.rows, r)
		return
	}
	i, ok := slices.BinarySearchFunc(l.rows, r.position, func(o *rowRef, p uint64) int {
		switch {
		case o.position < p:
			return -1
		case o.position > p:
			return 1
		}
		return 0
	})
	switch {
	case r.blocks() && !ok:
		l.rows = slices.Insert(l.rows, i, r)
	case !r.blocks() && ok && i == 0:
		l.rows[0] = nil
		l.rows = l.rows[1:]
	case !r.blocks() && ok:
		l.rows = slices.Delete(l.rows, i, i+1)
	}
}

// promote schedules the first row of a lane, if none is out.
func (q *rowQueue) promote(l *lane, m moment) {
	first := l.rows[0]
	if l.out != nil || l.scheduled == first {
		return
	}
	if l.scheduled != nil {
		q.unschedule(l.scheduled) // an earlier row has come back
		l.scheduled = nil
	}
	if first.waiting() {
		l.scheduled = first
		q.schedule(first, m)
	}
}

// schedule puts a waiting row where it becomes due.
func (q *rowQueue) schedule(r *rowRef, m moment) {
	q.age(r, m)
	switch {
	case r.delayedAt(m):
		q.byWall.push(r, r.delayed)
		q.byStore.push(r, int64(r.delay))
	case r.notBefore > m.wall:
		q.byWall.push(r, r.notBefore)
	default:
		q.ready.push(r, int64(r.position))
		q.notify()
		return
	}
	if len(q.byWall.rows) == 1 || q.byWall.rows[0] == r {
		q.notify() // whoever waits has to wait less long
	}
}

func (q *rowQueue) unschedule(r *rowRef) {
	q.ready.remove(r)
	q.byWall.remove(r)
	q.byStore.remove(r)
}

// becomeDue moves the rows that have become due by either clock.
func (q *rowQueue) becomeDue() {
	m := q.moment()
	for {
		r := q.byWall.dueBy(m.wall)
		if r == nil {
			r = q.byStore.dueBy(int64(m.store))
		}
		if r == nil {
			return
		}
		q.unschedule(r)
		q.schedule(r, m)
	}
}
