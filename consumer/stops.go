package consumer

import (
	"sync"
	"sync/atomic"
)

// This file is why a running consumer asks for nothing: several reasons may hold at once, and it goes on when the
// last one has gone.

// why is a reason.
type why uint32

const (
	whyPause  why = 1 << iota // a person has paused it
	whyStore                  // the store does not answer
	whyRelay                  // nobody relays what the store holds
	whyServer                 // it cannot be reached
	whyOrder                  // what was handed out before a crash has to come first
)

// state is what is told of a set of reasons: the one that lasts until somebody acts comes first.
func (w why) state() string {
	switch {
	case w&whyPause != 0:
		return StatePaused
	case w&whyServer != 0:
		return StateDisconnected
	case w&whyStore != 0:
		return StateWaiting
	case w&whyRelay != 0:
		return StateUnrelayed
	case w&whyOrder != 0:
		return StateOrdering
	}
	return StateRunning
}

// refuses reports whether nothing may start: what is held unstarted, and what still arrives, is given back. Else
// what is held goes on, as far as it can.
func (w why) refuses() bool { return w&(whyPause|whyRelay) != 0 }

// stops is the set of reasons that hold.
type stops struct {
	mu  sync.Mutex // makes a change and what follows from it one step
	set atomic.Uint32
	err map[why]error
}

func (s *stops) has(w why) bool { return s.set.Load()&uint32(w) != 0 }

func (s *stops) refuses() bool { return why(s.set.Load()).refuses() }

// stopFor adds a reason to ask for nothing, or takes it away.
func (s *session) stopFor(w why, on bool, err error) {
	s.stops.mu.Lock()
	defer s.stops.mu.Unlock()
	before := why(s.stops.set.Load())
	after := before &^ w
	if on {
		after |= w
	}
	if after == before {
		return
	}
	s.stops.set.Store(uint32(after))
	if s.stops.err == nil {
		s.stops.err = make(map[why]error)
	}
	s.stops.err[w] = err
	if after != 0 {
		s.pull.pause(true)
	}
	s.become(after.state(), s.stops.errOf(after))
	if after == 0 {
		s.pull.pause(false)
	}
	if after.refuses() && !before.refuses() {
		s.giveBackUnstarted(giveBackDelay(s.beat.ackWait))
	}
}

// errOf is the error that goes with the state of a set. The caller holds mu.
func (s *stops) errOf(set why) error {
	for _, w := range []why{whyPause, whyServer, whyStore, whyRelay, whyOrder} {
		if set&w != 0 {
			return s.err[w]
		}
	}
	return nil
}
