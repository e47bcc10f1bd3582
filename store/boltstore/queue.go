package boltstore

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/onefold-go/onefold"
)

// op is one request to the writer. Its methods are called by the writer, in this order, except that after
// a failed write only finish is called.
type op interface {
	// weight is what the op takes at most.
	weight() load
	// prepare looks at memory before the transaction begins.
	prepare(g *group)
	// apply writes. An error makes the whole group fail; what concerns one op alone it keeps to itself. It is
	// called again if the transaction had to be begun anew.
	apply(g *group) error
	// publish makes visible what is durable now.
	publish(g *group)
	// finish answers the caller. err tells why the group could not be written.
	finish(err error)
}

// load is what an op takes of a group.
type load struct {
	entries int  // counted against Options.MaxGroupEntries
	bytes   int  // of keys and values
	puts    int  // changes of bucket entries, at most
	largest int  // bytes of the largest value
	grows   bool // it adds to what is stored, and must leave room for what only frees
	joins   int  // entries that come last, since they have joins or follow one of their batch
}

func (l *load) add(o load) {
	l.entries, l.bytes, l.puts = l.entries+o.entries, l.bytes+o.bytes, l.puts+o.puts
	l.largest, l.grows, l.joins = max(l.largest, o.largest), l.grows || o.grows, l.joins+o.joins
}

// answer is how the writer answers a waiting caller.
type answer struct {
	done chan struct{}
	err  error // valid once done is closed
}

func newAnswer() answer { return answer{done: make(chan struct{})} }

func (a *answer) finish(err error) {
	a.err = err
	close(a.done)
}

// wait waits for the answer. After an error of ctx the op goes on by itself.
func (a *answer) wait(ctx context.Context) error {
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", onefold.ErrUnknown, ctx.Err())
	}
}

// queue is what waits for the writer, in order.
type queue struct {
	mu     sync.Mutex
	ops    []op
	next   int // ops before it are taken
	closed bool
	wake   chan struct{}
}

// add puts o at the end. Errors: ErrClosed.
func (q *queue) add(o op) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return onefold.ErrClosed
	}
	q.ops = append(q.ops, o)
	q.nudge()
	return nil
}

// putBack puts ops that were taken before all that wait.
func (q *queue) putBack(ops []op) {
	if len(ops) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ops, q.next = slices.Concat(ops, q.ops[q.next:]), 0
}

// nudge makes the writer look.
func (q *queue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take removes ops from the front: whatever waits, within the limits, but at least one if any waits.
func (q *queue) take(into []op, entries, bytes int) ([]op, load) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var sum load
	for q.next < len(q.ops) {
		w := q.ops[q.next].weight()
		if len(into) > 0 && (sum.entries+w.entries > entries || sum.bytes+w.bytes > bytes) {
			break
		}
		into = append(into, q.ops[q.next])
		q.ops[q.next] = nil
		q.next++
		sum.add(w)
	}
	switch {
	case q.next == len(q.ops):
		q.ops, q.next = q.ops[:0], 0
	case q.next > len(q.ops)/2:
		// Some op always waits when the writer is busy: move the rest down, or the slice grows for ever.
		n := copy(q.ops, q.ops[q.next:])
		clear(q.ops[n:])
		q.ops, q.next = q.ops[:n], 0
	}
	return into, sum
}

// close refuses further ops.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.nudge()
}

// drained reports whether nothing will come any more.
func (q *queue) drained() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed && q.next == len(q.ops)
}
