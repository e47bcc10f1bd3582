package main

import (
	"sync/atomic"

	"github.com/onefold-go/onefold"
)

// countdown stops the worker when so many messages are acked and what each has asked for, an invoice or a dead letter,
// has been sent.
type countdown struct {
	n           int64
	acked, sent atomic.Int64
	stop        func()
}

func newCountdown(n int, stop func()) *countdown { return &countdown{n: int64(n), stop: stop} }

// watch adds the countdown to what an observer does already.
func (c *countdown) watch(o *onefold.Observer) {
	acked, settled := o.Acked, o.Settled
	o.Acked = func(e onefold.DeliveryEvent) {
		acked(e)
		c.acked.Add(1)
		c.look()
	}
	o.Settled = func(e onefold.RowEvent) {
		settled(e)
		c.sent.Add(1)
		c.look()
	}
}

func (c *countdown) look() {
	if c.acked.Load() >= c.n && c.sent.Load() >= c.n {
		c.stop()
	}
}
