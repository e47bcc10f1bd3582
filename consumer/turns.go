package consumer

import (
	"sync"

	"github.com/onefold-go/onefold"
)

// This file makes runs that moved each other's state run again one after the other. A group commit takes one
// entry for each version of a value. Reruns that are all started at once would read the same version again, and
// all but one would be refused again: a hundred messages about one counter would cost thousands of runs. With
// turns each costs about two. A first run takes no turn, because what it will read is not known before.

// stateKey names one value of state.
type stateKey struct{ table, key string }

// turns is who may run again, for each value that has moved under a run.
type turns struct {
	mu    sync.Mutex
	queue map[stateKey][]*delivery // the first one has the turn
}

// take queues d for the turn at k, and reports whether it has it now.
func (t *turns) take(d *delivery, k stateKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue == nil {
		t.queue = make(map[stateKey][]*delivery)
	}
	d.turn = &k
	t.queue[k] = append(t.queue[k], d)
	return t.queue[k][0] == d
}

// leave gives up d's turn, and returns those that may go on: the next one, or all with everyone, who are out
// of the queue then.
func (t *turns) leave(d *delivery, everyone bool) []*delivery {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := *d.turn
	waiting := t.queue[k][1:]
	d.turn = nil
	switch {
	case len(waiting) == 0:
		delete(t.queue, k)
		return nil
	case everyone:
		delete(t.queue, k)
		for _, w := range waiting {
			w.turn = nil
		}
		return waiting
	}
	t.queue[k] = waiting
	return waiting[:1:1]
}

// awaitTurn reports whether d may run again now. If not, it waits for its turn at the value that has moved, and is
// brought back to the workers by whoever had the turn before.
func (s *session) awaitTurn(d *delivery) bool {
	moved := s.moved(d)
	if d.turn != nil {
		if moved == nil || *d.turn == *moved {
			return true
		}
		s.passTurn(d)
	}
	return moved == nil || s.turns.take(d, *moved)
}

// moved finds a value that d has read and that has another version now; nil: none is known, such as after a
// conflict that a join has reported.
func (s *session) moved(d *delivery) *stateKey {
	for _, r := range d.reads {
		if v, err := s.st.Read(s.handlers, r.Table, r.Key); err == nil && v.Version != r.Version {
			return &stateKey{r.Table, r.Key}
		}
	}
	return nil
}

// passTurn lets the next one run, if d has a turn. A consumer that ends runs nothing again: the messages come again
// elsewhere.
func (s *session) passTurn(d *delivery) {
	if d.turn == nil {
		return
	}
	draining := s.draining.Load()
	for _, next := range s.turns.leave(d, draining) {
		if draining || !s.work.push(next) {
			s.retryLater(next, verdict{class: onefold.ClassConflict, reason: onefold.ErrConflict.Error()})
		}
	}
}
