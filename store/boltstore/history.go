package boltstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// leastHistory is how long the history of a key without an outcome is kept at least after it was last
// added to; the longest retention seen counts if it is longer.
const leastHistory = 7 * 24 * time.Hour

// history is what is known of a key that has no outcome. Memory holds the truth, guarded by the lock of
// the stripe; the writer copies what has changed into the next group. The counts are cumulative, so it
// does not matter how many changes one copy covers.
type history struct {
	attempts
	form string // stored form of the key
	hash uint64
	gone bool // the key has an outcome, or nothing is left to remember
	due  bool // it is among the changes
}

func (h *history) public() onefold.History {
	return onefold.History{
		Starts: int(h.starts), Failures: int(h.failures), First: time.Unix(0, h.first).UTC(), LastReason: h.reason,
	}
}

// changes lists the histories that differ from the file.
type changes struct {
	mu   sync.Mutex
	list []*history
}

// add notes that h has changed. The lock of its stripe is held.
func (c *changes) add(h *history) {
	if h.due {
		return
	}
	h.due = true
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, h)
}

// giveBack puts a list that could not be written before what has changed since.
func (c *changes) giveBack(list []*history) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(list, c.list...)
}

func (c *changes) empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.list) == 0
}

// take removes the n oldest changes.
func (c *changes) take(n int) []*history {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n >= len(c.list) {
		list := c.list
		c.list = nil
		return list
	}
	list := c.list[:n:n]
	c.list = c.list[n:]
	return list
}

// historyName is the bucket key of the history of a key with this canonical form.
func (s *Store) historyName(canon []byte, hash uint64) string {
	f := historyForm(canon, hash, s.hashKey)
	return string(f.append(make([]byte, 0, f.size())))
}

// historyOf is what is known of the attempts before that of c: an attempt that asks for its claim again must
// not take its own start for one that was cut short.
func (s *Store) historyOf(st *stripe, c *claim, canon []byte) onefold.History {
	h := st.history[s.historyName(canon, c.hash)]
	if h == nil {
		return onefold.History{}
	}
	earlier := *h
	if c.started && earlier.starts > 0 {
		earlier.starts--
	}
	if earlier.starts == 0 && earlier.failures == 0 {
		return onefold.History{}
	}
	return earlier.public()
}

// remember returns the history of c's key to change it. The lock of st is held.
func (s *Store) remember(st *stripe, c *claim, canon []byte) *history {
	form := s.historyName(canon, c.hash)
	h := st.history[form]
	if h == nil {
		began := s.clock.Wall().Add(c.began - s.clock.Mono())
		h = &history{form: form, hash: c.hash, attempts: attempts{first: began.UnixNano()}}
		st.history[form] = h
	}
	h.touched = s.now()
	return h
}

// forget drops a history; the writer removes it from the file.
func (st *stripe) forget(h *history) {
	h.gone = true
	delete(st.history, h.form)
}

func (s *Store) noteRelease(st *stripe, c *claim, f onefold.Failure) {
	if !f.Counted && !c.started {
		return
	}
	h := s.remember(st, c, canonOf(&c.public.Key))
	if f.Counted {
		h.failures++
		h.reason = onefold.TruncateReason(f.Reason)
	} else {
		s.takeBackStart(st, h)
	}
	s.changes.add(h)
	s.queue.nudge()
}

func (s *Store) takeBackStart(st *stripe, h *history) {
	if h.starts > 0 {
		h.starts--
	}
	if h.starts == 0 && h.failures == 0 {
		st.forget(h)
	}
}

// startOp makes the start of one attempt durable.
type startOp struct {
	answer
	history *history
}

func (o *startOp) weight() load       { return load{entries: 1, grows: true} }
func (o *startOp) apply(*group) error { return nil }
func (o *startOp) publish(*group)     {}

func (o *startOp) prepare(g *group) {
	g.history = append(g.history, g.store.collectHistory([]*history{o.history})...)
}

// countStart counts the start of c's attempt, once. The lock of st is held. It returns what to wait for.
func (s *Store) countStart(st *stripe, c *claim, canon []byte) *startOp {
	if c.start == nil && !c.started {
		h := s.remember(st, c, canon)
		// Attempts that failed without a counted start count too, so that only those that were cut short make the
		// difference.
		h.starts = max(h.starts, h.failures) + 1
		c.start, c.started = &startOp{newAnswer(), h}, true
		if err := s.queue.add(c.start); err != nil {
			c.start.finish(err)
		}
	}
	return c.start
}

// awaitStart waits until the start of c is durable. If it cannot become so, the claim is withdrawn.
func (s *Store) awaitStart(ctx context.Context, start *startOp, c *claim) error {
	if err := start.wait(ctx); err != nil {
		return err
	}
	st := s.stripe(c.hash)
	st.mu.Lock()
	defer st.mu.Unlock()
	if start.err == nil || c.start != start {
		return start.err
	}
	c.start = nil
	if c.state != gone {
		st.drop(c)
	}
	if h := s.remember(st, c, canonOf(&c.public.Key)); !h.gone {
		s.takeBackStart(st, h)
		s.changes.add(h)
	}
	if errors.Is(start.err, onefold.ErrUnknown) {
		return fmt.Errorf("%w: the start could not be counted: %s", onefold.ErrDamaged, start.err.Error())
	}
	return start.err
}

// historyWrite is the present history of one key in stored form; a nil value removes it.
type historyWrite struct{ key, value []byte }

// collectHistory copies the histories of the keys in list for a group, as their stripes hold them now. One
// in the list may have been dropped and its key counted anew since: its deletion must not end what another
// group has made durable meanwhile.
func (s *Store) collectHistory(list []*history) []historyWrite {
	writes := make([]historyWrite, 0, len(list))
	for _, h := range list {
		st := s.stripe(h.hash)
		st.mu.Lock()
		h.due = false
		w := historyWrite{key: []byte(h.form)}
		if now := st.history[h.form]; now != nil {
			w.value = now.append(make([]byte, 0, attemptsHead+len(now.reason)+sum.Len))
		}
		st.mu.Unlock()
		writes = append(writes, w)
	}
	return writes
}

func applyHistory(b *bucket, writes []historyWrite) error {
	for _, w := range writes {
		var err error
		if w.value == nil {
			err = b.remove(w.key)
		} else {
			err = b.put(w.key, w.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
