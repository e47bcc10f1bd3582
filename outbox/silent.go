package outbox

import (
	"errors"
	"sync"
)

// errSilent is the reason of rows that were not sent because their subject gives no answer.
var errSilent = errors.New("an earlier message to this subject has no answer; one at a time is tried until there is one")

// silences are the subjects whose last message got no answer in time. Such a message keeps its place in the window for
// all of that time, and comes back before newer rows: without a limit the rows of one silent subject would take every
// place, for ever. So one at a time is out as a feeler, and the others are given back at once. The fetcher asks, the
// collector tells.
type silences struct {
	mu sync.Mutex
	of map[string]bool // whether its feeler is out
}

// maySend reports whether a message to subject may go out now.
func (s *silences) maySend(subject string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, silent := s.of[subject]
	if silent && !out {
		s.of[subject] = true
	}
	return !out
}

// learn notes what came back for a message to subject.
func (s *silences) learn(subject string, timedOut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !timedOut:
		delete(s.of, subject)
	case len(s.of) < maxTroubled:
		if s.of == nil {
			s.of = map[string]bool{}
		}
		s.of[subject] = false
	}
}
