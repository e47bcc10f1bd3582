package outbox

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
)

func newStatus(tell func(onefold.StateEvent)) *status {
	return &status{state: StateNew, tell: tell, clock: onefold.Clock{}.OrSystem()}
}

func TestTheRelayWaitsUntilItsLastHindranceHasEnded(t *testing.T) {
	var heard []string
	s := newStatus(func(e onefold.StateEvent) { heard = append(heard, e.From+">"+e.To) })
	s.begin()
	s.freed(noServer)
	assert.Empty(t, heard, "the feed is not open yet")
	s.freed(noFeed | noServer)
	s.hindered(noSettle, onefold.ErrUnavailable)
	s.hindered(noServer, nil)
	s.freed(noSettle)
	s.freed(noRows)
	assert.Equal(t, []string{"new>running", "running>waiting"}, heard, "the server is still away")
	s.freed(noServer)
	s.hindered(noRows, onefold.ErrUnavailable)
	s.hindered(noFeed, onefold.ErrLost)
	s.begin()
	s.freed(noFeed | noServer)
	s.stop(nil)
	s.begin()
	s.freed(noFeed)
	assert.Equal(t, []string{
		"new>running", "running>waiting", "waiting>running", "running>waiting",
		"waiting>running", "running>stopped", "stopped>running", // another feed and another run start without old hindrances
	}, heard)
}

func TestTheObserverHearsChangesOfStateInTheirOrder(t *testing.T) {
	state := StateNew
	s := newStatus(func(e onefold.StateEvent) {
		assert.Equal(t, state, e.From)
		assert.NotEqual(t, e.From, e.To)
		state = e.To // guarded by the order itself: the race detector would tell
	})
	s.begin()
	s.freed(noFeed)
	var all sync.WaitGroup
	for _, h := range []hindrance{noRows, noSettle, noServer} {
		all.Go(func() {
			for range 200 {
				s.hindered(h, nil)
				s.freed(h)
			}
		})
	}
	all.Wait()
	assert.Equal(t, StateRunning, state)
}

func TestARelayWithoutAnObserverOfItsStateRuns(t *testing.T) {
	s := newStatus(nil)
	s.begin()
	s.freed(noFeed)
	s.stop(nil)
	assert.Equal(t, StateStopped, s.state)
}
