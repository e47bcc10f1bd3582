package consumer

import (
	"sync"

	"github.com/onefold-go/onefold"
)

// The states that a Consumer reports to its observer, as part "consumer STREAM/NAME".
const (
	StateNew      = "new"
	StateOpening  = "waiting to start"      // server or store cannot be reached yet
	StateRunning  = "running"               // messages come as they can be handled
	StateWaiting  = "waiting for the store" // nothing is asked for until the store answers again
	StateDraining = "draining"              // no new messages; what runs may end
	StateStopped  = "stopped"               // Run has returned
)

// status is the state of one call of Run. Changes are told in order.
type status struct {
	part  string
	obs   *onefold.Observer
	clock onefold.Clock

	mu  sync.Mutex
	now string
}

func newStatus(cfg Config) *status {
	return &status{part: cfg.part(), obs: cfg.Observer, clock: cfg.Clock, now: StateNew}
}

// become changes the state and tells the observer. Once draining, a consumer can only stop.
func (s *status) become(state string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.now
	if old == state || (old == StateDraining && state != StateStopped) {
		return
	}
	s.now = state
	if s.obs.State != nil {
		s.obs.State(onefold.StateEvent{At: s.clock.Wall(), Part: s.part, From: old, To: state, Err: err})
	}
}
