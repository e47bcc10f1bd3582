package onefoldtest

import (
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

// Delivery is what became of one delivery. Neither Acked nor Again is set if nothing was answered: the process has
// died, the claim was lost, or the same stream message is still being handled.
type Delivery struct {
	consumer.Answer

	Runs int   // of the handler, because of this delivery; 0: it was a duplicate, or could not run
	Err  error // why it comes again, was given up or dropped
}

// Deliver delivers msg once. Delivering a message again is a redelivery; see [Kit.Copy] for a repeat by the producer.
func (k *Kit) Deliver(msg *onefold.Message) Delivery {
	k.tb.Helper()
	return k.deliver(msg, false)
}

// Elsewhere delivers msg once to a second process on the same store. With [Kit.During] it shows what happens when two
// have a message at once.
func (k *Kit) Elsewhere(msg *onefold.Message) Delivery {
	k.tb.Helper()
	return k.deliver(msg, true)
}

func (k *Kit) deliver(msg *onefold.Message, elsewhere bool) (d Delivery) {
	k.tb.Helper()
	k.step(func() {
		var err error
		d, err = k.world.deliver(msg, elsewhere)
		k.check(err)
	})
	return d
}

// Run delivers msg until it is acked, and lets the delays pass that the consumer asks for, or AckWait if nothing was
// answered. The result is that of the last delivery; Runs counts all. The test ends if that takes more deliveries
// than Config.MaxAttempts explains.
func (k *Kit) Run(msg *onefold.Message) Delivery {
	k.tb.Helper()
	var last Delivery
	k.step(func() { last = k.settle(msg) })
	return last
}

// spareDeliveries is how many deliveries Run allows beyond MaxAttempts, for those that use up no attempt.
const spareDeliveries = 20

func (k *Kit) settle(msg *onefold.Message) (last Delivery) {
	k.tb.Helper()
	runs := 0
	for range k.cfg.MaxAttempts + spareDeliveries {
		last = k.deliver(msg, false)
		runs += last.Runs
		last.Runs = runs
		if last.Acked {
			return last
		}
		k.pass(last)
	}
	k.tb.Fatalf("onefoldtest: %s: not settled after %d deliveries; the last error is: %v",
		msg.Subject, k.cfg.MaxAttempts+spareDeliveries, last.Err)
	return last
}

// pass lets the time pass after which the server brings a message again.
func (k *Kit) pass(d Delivery) {
	k.tb.Helper()
	if k.world.died() {
		k.restart()
	}
	wait := d.Delay
	if !d.Again {
		wait = k.cfg.AckWait
	}
	k.Advance(wait)
}

// Crash lets the process die now, while nothing is under way, and starts another on what it has stored.
func (k *Kit) Crash() {
	k.tb.Helper()
	k.step(func() { k.restart() })
}

func (k *Kit) restart() {
	k.tb.Helper()
	k.check(k.world.restart())
}

// CrashAt delivers msg until the process gets to p, where it dies, and starts another. It reports whether p was
// reached before the message was settled. Afterwards msg is delivered again with Run or Deliver, or the relay goes on
// with what was stored when something else is delivered.
func (k *Kit) CrashAt(p Point, msg *onefold.Message) (reached bool) {
	k.tb.Helper()
	k.step(func() { reached = k.crashAt(p, msg) })
	return reached
}

func (k *Kit) crashAt(p Point, msg *onefold.Message) bool {
	k.tb.Helper()
	w := k.world
	w.arm(p)
	defer w.arm("")
	for range k.cfg.MaxAttempts + spareDeliveries {
		d := k.deliver(msg, false)
		if w.died() {
			k.restart()
			return true
		}
		if d.Acked {
			break
		}
		k.pass(d)
	}
	return false
}

func (w *world) arm(p Point) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dieAt = p
}

// During delivers msg once and calls do while its handler runs: the code of the handler has returned, but nothing of
// it is known yet. do may use the kit: deliver copies, deliver elsewhere, or let more than the lease pass, so that the
// claim is lost. If the handler is not run, do is not called and the test fails.
func (k *Kit) During(msg *onefold.Message, do func()) (d Delivery) {
	k.tb.Helper()
	k.step(func() {
		w, called := k.world, false
		w.during = func() { called = true; do() }
		d = k.deliver(msg, false)
		w.during = nil
		if !called {
			k.report("during "+msg.Subject, "During: the handler did not run for %s at position %d (%+v); deliver a message that is not done",
				msg.Subject, msg.Sequence, d)
		}
	})
	return d
}

// beyondLease is longer than the claim lives without being renewed.
func (k *Kit) beyondLease() time.Duration { return k.cfg.Lease + time.Second }
