package consumer

import (
	"sync"

	"github.com/onefold-go/onefold"
)

// The states that a Consumer reports to its observer, as part "consumer STREAM/NAME".
const (
	StateNew          = "new"
	StateOpening      = "waiting to start"       // server, store, stream or durable cannot be reached yet, or not any more
	StateRunning      = "running"                // messages come as they can be handled
	StateWaiting      = "waiting for the store"  // nothing is asked for until the store answers again
	StateDisconnected = "waiting for the server" // the connection is lost; what runs goes on
	StateDraining     = "draining"               // no new messages; what runs may end
	StateStopped      = "stopped"                // Run has returned
)

// status is the state of one call of Run. Changes are told in order.
type status struct {
	part  string
	obs   *onefold.Observer
	clock onefold.Clock

	mu     sync.Mutex
	now    string
	away   bool   // the server cannot be reached
	behind string // away: what the state is as soon as the server is back
	why    error  // of behind
}

func newStatus(cfg Config) *status {
	return &status{part: cfg.part(), obs: cfg.Observer, clock: cfg.Clock, now: StateNew}
}

// become changes the state and tells the observer. While draining, a consumer can only stop, or open
// another session.
func (s *status) become(state string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away && (state == StateRunning || state == StateWaiting) {
		s.behind, s.why = state, err
		return
	}
	s.away = false
	if s.now != StateDraining || state == StateStopped || state == StateOpening {
		s.change(state, err)
	}
}

// lose says that the server cannot be reached. It is the state until regain, whatever the store does
// meanwhile.
func (s *status) lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == StateRunning || s.now == StateWaiting {
		s.away, s.behind, s.why = true, s.now, nil
		s.change(StateDisconnected, err)
	}
}

// regain says that the server can be reached again.
func (s *status) regain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		s.away = false
		s.change(s.behind, s.why)
	}
}

// change tells the observer. The caller holds mu.
func (s *status) change(state string, err error) {
	old := s.now
	if old == state {
		return
	}
	s.now = state
	if s.obs.State != nil {
		s.obs.State(onefold.StateEvent{At: s.clock.Wall(), Part: s.part, From: old, To: state, Err: err})
	}
}
