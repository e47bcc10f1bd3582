package boltstore

import (
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
	ofHash  map[uint64]*rowRef // by hash of the key: the last of a list
	ready   rowHeap            // rows that may be handed out, by position
	byWall  rowHeap            // rows not due yet, by wall clock
	byStore rowHeap            // delayed rows, by store clock
	aging   rowHeap            // rows neither parked nor delayed, by position: held up or out as well
	parked  int
	fresh   int // bytes of rows kept

	bytes, parkedBytes int64 // in the file, about

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
	filedParked bool   // the file has it among the parked rows; else than parked only in a race, see publish
	written     uint32 // attempts in the file
	size        int    // bytes in the file, about
	suspect     bool   // may have been out when the process died: count durably before handing out
	value       []byte // stored form, if it is kept
	at          [4]heapPlace

	older, newer *rowRef // of the same hash
}

func (r *rowRef) blocks() bool  { return !r.parked || r.keepsOrder }
func (r *rowRef) waiting() bool { return !r.parked && r.ticket == 0 }

func newRowQueue(s *Store) rowQueue {
	return rowQueue{
		store: s, refs: map[uint64]*rowRef{}, lanes: map[string]*lane{}, owners: map[uint64]*owner{}, ofHash: map[uint64]*rowRef{},
		ready: rowHeap{slot: 0}, byWall: rowHeap{slot: 1}, byStore: rowHeap{slot: 2}, aging: rowHeap{slot: 3},
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

// head is the stored form of a row with this state, made from what is stored of it now.
func (st *rowState) head(h rowHead) rowHead {
	h.flags &^= rowTried | rowHold
	h.attempts, h.delayed, h.delay = st.attempts, st.delayed, st.delay
	if st.tried {
		h.flags |= rowTried
	}
	if st.parked && st.keepsOrder {
		h.flags |= rowHold
	}
	if !st.parked {
		h.parkedAt = noTime
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
	if r.older = q.ofHash[r.hash]; r.older != nil {
		r.older.newer = r
	}
	q.ofHash[r.hash] = r
	q.count(r, 1)
	if r.parked {
		r.ticket = q.nextTicket()
	}
	if r.value != nil && q.fresh+len(r.value) > q.store.options.hooks.rowBudget {
		r.value = nil
	}
	q.fresh += len(r.value)
	q.place(r)
}

// count adds r to the sums, n times.
func (q *rowQueue) count(r *rowRef, n int) {
	size := int64(n * r.size)
	q.bytes += size
	if r.parked {
		q.parked += n
		q.parkedBytes += size
	}
}

// change gives a row another state.
func (q *rowQueue) change(r *rowRef, st rowState) {
	q.filed(r, st.attempts)
	if st.ticket != 0 && !st.parked {
		r.tried = st.tried // stays out
		return
	}
	q.count(r, -1)
	if r.feed != nil {
		delete(r.feed.out, r)
	}
	r.rowState = st
	q.count(r, 1)
	if r.parked {
		r.ticket = q.nextTicket()
	}
	q.place(r)
}

// filed notes that the file has the row with so many attempts and another head than the kept value.
func (q *rowQueue) filed(r *rowRef, attempts uint32) {
	q.fresh -= len(r.value)
	r.value, r.written = nil, attempts
}

// remove forgets a row that has ended.
func (q *rowQueue) remove(r *rowRef) {
	q.fresh -= len(r.value)
	r.value = nil
	q.count(r, -1)
	if r.feed != nil {
		delete(r.feed.out, r)
	}
	r.ticket, r.feed = 0, nil
	r.parked, r.keepsOrder = true, false // blocks nobody and is not scheduled
	q.place(r)
	delete(q.refs, r.position)
	q.unlink(r)
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

// unlink takes r out of the list of its hash.
func (q *rowQueue) unlink(r *rowRef) {
	if r.older != nil {
		r.older.newer = r.newer
	}
	switch {
	case r.newer != nil:
		r.newer.older = r.older
	case r.older != nil:
		q.ofHash[r.hash] = r.older
	default:
		delete(q.ofHash, r.hash)
	}
	r.older, r.newer = nil, nil
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
