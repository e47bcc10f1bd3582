package boltstore

import (
	"slices"
	"sync"
	"time"

	"github.com/onefold-go/onefold"
)

// freshRowBytes is how many bytes of rows are kept in memory between their commit and their settlement,
// so that the relay need not read them back.
const freshRowBytes = 64 << 20

// rowQueue is what memory holds of the rows that have not ended. The file holds the same, so it is filled
// from there at Open and changed by the writer after each commit; only who has a row out is here alone.
type rowQueue struct {
	store *Store

	mu      sync.Mutex
	refs    map[uint64]*rowRef // by position
	lanes   map[string]*lane   // by OrderKey
	owners  map[uint64]*owner  // by position of the record
	ready   rowHeap            // rows that may be handed out, by position
	byWall  rowHeap            // rows not due yet, by wall clock
	byStore rowHeap            // delayed rows, by store clock
	parked  int
	fresh   int // bytes of rows kept
	feed    *feed
	asked   time.Duration // monotonic time of the last Next; < 0: never
	tickets uint64
	waiting int           // calls of Next that are blocked
	wake    chan struct{} // closed and replaced when they should look again
}

// owner counts the unsettled rows of one record.
type owner struct {
	rows int
	zero chan struct{} // closed when there is none left; nil: nobody waits
}

// lane is one OrderKey: its rows in commit order, without those that are parked and hold nobody up. Only
// the first can be handed out, and only while none is out.
type lane struct {
	rows      []*rowRef
	out       *rowRef
	scheduled *rowRef
}

// rowState is the part of a row that settlements and feeds change.
type rowState struct {
	attempts   uint32
	tried      bool
	parked     bool
	keepsOrder bool          // parked with Hold
	delayed    int64         // wall clock it is delayed to; noTime: not delayed
	delay      time.Duration // store clock at which that delay is over at the latest

	// ticket may settle the row: that of the feed that has it, or of the person who looks at a parked one.
	// 0: nobody's. A ticket is never used twice.
	ticket uint64
	feed   *feed // who has it out; nil if parked or waiting

	settledTicket uint64 // the last settlement that kept the row, so that repeating it is success
	settledState  onefold.State
}

// rowRef stands for one row.
type rowRef struct {
	position  uint64
	record    uint64 // position of its record
	hash      uint64 // of its key
	orderKey  string
	notBefore int64
	timer     string        // effect ID if the row is a timer
	stored    time.Duration // store clock of the commit
	rowState
	written uint32 // attempts in the file
	size    int    // bytes in the file, about
	suspect bool   // may have been out when the process died: count durably before handing out
	value   []byte // stored form, if it is kept
	at      [3]heapPlace
}

func (r *rowRef) blocks() bool  { return !r.parked || r.keepsOrder }
func (r *rowRef) waiting() bool { return !r.parked && r.ticket == 0 }

func newRowQueue(s *Store) rowQueue {
	return rowQueue{
		store: s, refs: map[uint64]*rowRef{}, lanes: map[string]*lane{}, owners: map[uint64]*owner{},
		ready: rowHeap{slot: 0}, byWall: rowHeap{slot: 1}, byStore: rowHeap{slot: 2},
		asked: -1, wake: make(chan struct{}),
	}
}

// newRef makes the reference of a stored row.
func newRef(position, hash uint64, s *rowSummary) *rowRef {
	return &rowRef{
		position: position, record: s.record, hash: hash, orderKey: s.orderKey, notBefore: s.notBefore,
		timer: s.timer, stored: s.stored, written: s.attempts,
		rowState: rowState{
			attempts: s.attempts, tried: s.flags&rowTried != 0, keepsOrder: s.flags&rowHold != 0,
			delayed: s.delayed, delay: s.delay,
		},
	}
}

// head is the stored form of the state of r.
func (st *rowState) head(r *rowRef, flags byte) rowHead {
	h := rowHead{
		flags: flags &^ (rowTried | rowHold), attempts: st.attempts, delayed: st.delayed, delay: st.delay,
		stored: r.stored, record: r.record,
	}
	if st.tried {
		h.flags |= rowTried
	}
	if st.parked && st.keepsOrder {
		h.flags |= rowHold
	}
	return h
}

// add takes in a row.
func (q *rowQueue) add(r *rowRef) {
	q.refs[r.position] = r
	if q.owners[r.record] == nil {
		q.owners[r.record] = &owner{}
	}
	q.owners[r.record].rows++
	if r.parked {
		q.parked++
		r.ticket = q.nextTicket()
	}
	if r.value != nil && q.fresh+len(r.value) > q.store.options.hooks.rowBudget {
		r.value = nil
	}
	q.fresh += len(r.value)
	q.place(r)
}

// change gives a row another state.
func (q *rowQueue) change(r *rowRef, st rowState) {
	q.fresh -= len(r.value)
	r.value = nil // its head is not that of the file any more
	r.written = st.attempts
	if st.ticket != 0 && !st.parked {
		r.tried = st.tried // stays out
		return
	}
	if r.parked {
		q.parked--
	}
	if r.feed != nil {
		delete(r.feed.out, r)
	}
	r.rowState = st
	if r.parked {
		q.parked++
		r.ticket = q.nextTicket()
	}
	q.place(r)
}

// remove forgets a row that has ended.
func (q *rowQueue) remove(r *rowRef) {
	q.fresh -= len(r.value)
	r.value = nil
	if r.parked {
		q.parked--
	}
	if r.feed != nil {
		delete(r.feed.out, r)
	}
	r.ticket, r.feed = 0, nil
	r.parked, r.keepsOrder = true, false // blocks nobody and is not scheduled
	q.place(r)
	delete(q.refs, r.position)
	o := q.owners[r.record]
	if o.rows--; o.rows > 0 {
		return
	}
	delete(q.owners, r.record)
	if o.zero != nil {
		close(o.zero)
	}
}

func (q *rowQueue) nextTicket() uint64 {
	q.tickets++
	return q.tickets
}

// place puts r where its state belongs, and lets the next of its lane move up.
func (q *rowQueue) place(r *rowRef) {
	q.unschedule(r)
	if r.orderKey == "" {
		if r.waiting() {
			q.schedule(r)
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
	q.promote(l)
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
func (q *rowQueue) promote(l *lane) {
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
		q.schedule(first)
	}
}

// schedule puts a waiting row where it becomes due.
func (q *rowQueue) schedule(r *rowRef) {
	wall := q.store.clock.Wall().UnixNano()
	switch {
	case r.delayed != noTime && r.delayed > wall && r.delay > q.store.now():
		q.byWall.push(r, r.delayed)
		q.byStore.push(r, int64(r.delay))
	case r.notBefore > wall:
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
	wall, now := q.store.clock.Wall().UnixNano(), int64(q.store.now())
	for {
		r := q.byWall.dueBy(wall)
		if r == nil {
			r = q.byStore.dueBy(now)
		}
		if r == nil {
			return
		}
		q.unschedule(r)
		q.schedule(r)
	}
}

// notify wakes blocked calls of Next.
func (q *rowQueue) notify() {
	if q.waiting > 0 {
		close(q.wake)
		q.wake = make(chan struct{})
	}
}

// unsettled is how many rows of a record have not ended.
func (q *rowQueue) unsettled(record uint64) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if o := q.owners[record]; o != nil {
		return o.rows
	}
	return 0
}

// settled returns a channel that is closed when no row of the record is left; nil: that is so now.
func (q *rowQueue) settled(record uint64) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owners[record]
	if o == nil {
		return nil
	}
	if o.zero == nil {
		o.zero = make(chan struct{})
	}
	return o.zero
}
