package consumer

import "sync"

// fifo is an unbounded queue between goroutines. What goes through it is bounded elsewhere, by the
// prefetch; an unbounded queue cannot deadlock two stages that feed each other.
type fifo[T any] struct {
	mu      sync.Mutex
	ready   sync.Cond
	items   []T
	head    int
	closed  bool
	readers int // that have not been told of the end
	waiting int // readers that are blocked
}

// newFifo returns a fifo for that many reading goroutines.
func newFifo[T any](readers int) *fifo[T] {
	q := &fifo[T]{readers: readers}
	q.ready.L = &q.mu
	return q
}

// push adds one item and reports whether a reader will take it. A closed fifo still takes items as long as
// a reader is busy, because a reader pushes to its own fifo too; after that it takes none.
func (q *fifo[T]) push(item T) bool {
	q.mu.Lock()
	if q.closed && q.readers <= 0 {
		q.mu.Unlock()
		return false
	}
	q.items = append(q.items, item)
	wake := q.waiting > 0
	q.mu.Unlock()
	if wake {
		q.ready.Signal()
	}
	return true
}

// await blocks until there is an item, and reports false when the fifo is closed and empty.
// The caller holds the lock.
func (q *fifo[T]) await() bool {
	for q.head == len(q.items) {
		if q.closed {
			q.readers--
			return false
		}
		q.waiting++
		q.ready.Wait()
		q.waiting--
	}
	return true
}

// pop takes the oldest item. ok is false when the fifo is closed and empty.
func (q *fifo[T]) pop() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.await() {
		return item, false
	}
	var zero T
	item, q.items[q.head] = q.items[q.head], zero
	q.head++
	switch {
	case q.head == len(q.items):
		q.items, q.head = q.items[:0], 0
	case q.head >= 1024 && q.head*2 >= len(q.items):
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return item, true
}

// popAll takes everything that waits, appended to buf. It is empty only when the fifo is closed and empty.
func (q *fifo[T]) popAll(buf []T) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.await() {
		return buf
	}
	buf = append(buf, q.items[q.head:]...)
	clear(q.items)
	q.items, q.head = q.items[:0], 0
	return buf
}

// close lets readers go once the fifo is empty.
func (q *fifo[T]) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.ready.Broadcast()
}
