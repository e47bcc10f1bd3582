package consumer

import (
	"sync"
	"time"

	"github.com/onefold-go/onefold"
)

// The states that a Consumer reports to its observer, as part "consumer STREAM/NAME".
const (
	StateNew          = "new"
	StateOpening      = "waiting to start"                               // server, store, stream or durable cannot be reached yet, or not any more
	StateRunning      = "running"                                        // messages come as they can be handled
	StatePaused       = "paused"                                         // by Pause: nothing is asked for, nothing starts
	StateWaiting      = "waiting for the store"                          // nothing is asked for until the store answers again
	StateDisconnected = "waiting for the server"                         // the connection is lost: nothing is asked for
	StateUnrelayed    = "waiting for a relay"                            // nobody carries out what the store holds: nothing is asked for, nothing starts
	StateOrdering     = "waiting for what was handed out before a crash" // with Config.OrderBy, for an AckWait; see docs/guarantees.md
	StateDraining     = "draining"                                       // no new messages; what runs may end
	StateStopped      = "stopped"                                        // Run has returned
)

// status is the state of one call of Run. Changes are told in order.
type status struct {
	part  string
	obs   *onefold.Observer
	clock onefold.Clock

	mu  sync.Mutex
	now string
	at  time.Time // since when
	err error     // the last reason for a change, and when it was told
	bad time.Time
}

func newStatus(cfg Config) *status {
	return &status{part: cfg.part(), obs: cfg.Observer, clock: cfg.Clock, now: StateNew, at: cfg.Clock.Wall()}
}

// become changes the state and tells the observer. While draining, a consumer can only stop, or open another
// session.
func (s *status) become(state string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.now
	if old == state || (old == StateDraining && state != StateStopped && state != StateOpening) {
		return
	}
	s.now, s.at = state, s.clock.Wall()
	if err != nil || state == StateStopped { // what was waited out is no reason for the end
		s.err, s.bad = err, s.at
	}
	if s.obs.State != nil {
		s.obs.State(onefold.StateEvent{At: s.at, Part: s.part, From: old, To: state, Err: err})
	}
}
