package outbox

import (
	"sync"

	"github.com/onefold-go/onefold"
)

// The states that a Relay reports to its observer, as part "relay".
const (
	StateNew     = "new"     // Run has not been called; a state that is only left
	StateRunning = "running" // rows go out as they come
	StateWaiting = "waiting" // the store, its feed or the server is not available now
	StateStopped = "stopped" // Run has returned
)

// hindrance is a set of things that the relay waits for. The end of one never hides another.
type hindrance uint8

const (
	noFeed   hindrance = 1 << iota // the feed is not open
	noServer                       // the connection is down
	noRows                         // the feed does not answer
	noSettle                       // outcomes cannot be recorded
)

// status turns hindrances into the state that the observer is told.
type status struct {
	tell  func(onefold.StateEvent) // may be nil
	clock onefold.Clock

	mu    sync.Mutex // held while the observer is told, so that it hears changes in their order
	state string
	open  hindrance // those that last
}

// begin starts a run or another feed: what the last one met is over, and the next feed is not open yet.
func (s *status) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = noFeed
}

// hindered notes what the relay waits for, until every such thing has ended.
func (s *status) hindered(h hindrance, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open |= h
	s.become(StateWaiting, err)
}

// unsettled notes that outcomes cannot be recorded now.
func (s *status) unsettled(err error) { s.hindered(noSettle, err) }

// current is the state now.
func (s *status) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// freed notes that h has ended. With the last hindrance the relay runs.
func (s *status) freed(h hindrance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open &^= h
	if s.open == 0 {
		s.become(StateRunning, nil)
	}
}

// stop ends the run.
func (s *status) stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.become(StateStopped, err)
}

func (s *status) become(to string, err error) {
	from := s.state
	if from == to {
		return
	}
	s.state = to
	if s.tell != nil {
		s.tell(onefold.StateEvent{At: s.clock.Wall(), Part: "relay", From: from, To: to, Err: err})
	}
}
