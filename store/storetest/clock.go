package storetest

import (
	"sync"
	"time"

	"github.com/onefold-go/onefold"
)

// Clock is a time that moves only when told. It may be used concurrently.
type Clock struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration
}

// NewClock returns a clock that stands at a fixed moment of 2030, UTC.
func NewClock() *Clock {
	return &Clock{wall: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), mono: time.Hour}
}

// Clock is c in the form that stores take.
func (c *Clock) Clock() onefold.Clock { return onefold.Clock{Wall: c.Wall, Mono: c.Mono} }

// Wall is the time of day.
func (c *Clock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

// Mono is the time that only moves forward.
func (c *Clock) Mono() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mono
}

// Advance lets d pass: wall and monotonic time move together.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
	c.mono += d
}

// StepWall moves the wall clock alone, as a correction by hand or by a time server does. d may be
// negative.
func (c *Clock) StepWall(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// NewProcess starts monotonic time anew, as in a process that has just been started. It must not be
// called while a store that uses c is open.
func (c *Clock) NewProcess() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mono = 0
}
