package onefold

import "time"

// Clock is where a part of the framework reads the time. The zero value is the machine's clock.
//
// Wall is for people and for appointments ([Effect.NotBefore]); it may jump. Mono only moves forward, at
// the rate of real time, and decides leases, retention and delays. Tests set both.
type Clock struct {
	Wall func() time.Time
	Mono func() time.Duration // since any fixed moment
}

// processStart anchors the default Mono; it carries a monotonic reading.
var processStart = time.Now()

// OrSystem returns c with the machine's clock in place of what is nil.
func (c Clock) OrSystem() Clock {
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Mono == nil {
		c.Mono = func() time.Duration { return time.Since(processStart) }
	}
	return c
}
