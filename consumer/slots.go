package consumer

import (
	"sync/atomic"
	"time"
)

// slots is how the unanswered messages that the server allows are used. A message that was asked to come again
// after a delay keeps its slot meanwhile; nothing short of an answer frees it.
type slots struct {
	max     int // MaxAckPending; 0: any number
	delayed int // held by messages that stay away for a delay
	resting int // held by messages that are here and only wait: for another copy, their turn, or the relay
}

// delayedShare is the part of MaxAckPending that messages which stay away may hold before less is asked for.
const delayedShare = 0.5

// allowed is how many messages may stay away before less is asked for; 0: any number.
func (s slots) allowed() int { return int(float64(s.max) * delayedShare) }

// free is how many slots are left for messages that do something.
func (s slots) free() int { return max(0, s.max-s.delayed-s.resting) }

// target bounds how many messages are asked for and held. As long as those that stay away keep to their share it
// is what is free. Beyond, it is half of what is free, so that a run of failures never takes the last slots in one
// go, while what succeeds frees its slot at once; and it is never less than one, because what comes again after its
// delay comes through a pull too.
func (s slots) target(wanted int) int {
	switch {
	case s.max == 0:
		return wanted
	case s.delayed <= s.allowed():
		return min(wanted, max(1, s.free()))
	}
	return min(wanted, max(1, s.free()/2))
}

// away knows which messages stay away and until when. The puller guards all but count.
type away struct {
	until map[uint64]time.Duration // by sequence, on the monotonic clock
	count atomic.Int64             // len(until), for a look without the lock
}

func (a *away) add(sequence uint64, until time.Duration) {
	if a.until == nil {
		a.until = make(map[uint64]time.Duration)
	}
	a.until[sequence] = until
	a.count.Store(int64(len(a.until)))
}

func (a *away) remove(sequence uint64) {
	delete(a.until, sequence)
	a.count.Store(int64(len(a.until)))
}

// sweep forgets those whose time is over: they are on their way to somebody.
func (a *away) sweep(now time.Duration) {
	for sequence, until := range a.until {
		if until <= now {
			delete(a.until, sequence)
		}
	}
	if len(a.until) == 0 {
		a.until = nil // a map keeps the size it once had
	}
	a.count.Store(int64(len(a.until)))
}

// goesAway notes that a message stays away for delay.
func (p *puller) goesAway(sequence uint64, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away.add(sequence, p.clock.Mono()+delay)
	p.fetch.slots.delayed = len(p.away.until)
}

// cameBack notes that a message has arrived.
func (p *puller) cameBack(sequence uint64) {
	if p.away.count.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away.remove(sequence)
	p.fetch.slots.delayed = len(p.away.until)
}

// sweep forgets the messages whose delay is over, and asks for more if that makes room.
func (p *puller) sweep() {
	if p.away.count.Load() == 0 {
		return
	}
	p.mu.Lock()
	p.away.sweep(p.clock.Mono())
	p.fetch.slots.delayed = len(p.away.until)
	p.unlockAndLook()
}
