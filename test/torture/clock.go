package main

import (
	"sync/atomic"
	"time"

	"github.com/onefold-go/onefold"
)

// offsetClock is the machine's clock with a wall clock that was set wrong. The monotonic one stays right, as on a machine.
type offsetClock struct{ ahead atomic.Int64 }

func (c *offsetClock) set(d time.Duration) { c.ahead.Store(int64(d)) }

func (c *offsetClock) clock() onefold.Clock {
	system := onefold.Clock{}.OrSystem()
	return onefold.Clock{
		Wall: func() time.Time { return system.Wall().Add(time.Duration(c.ahead.Load())) },
		Mono: system.Mono,
	}
}
