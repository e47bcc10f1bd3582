package consumer

import "time"

// Bounds of the prefetch.
const (
	maxPrefetch      = 8192     // messages asked for and not answered
	maxPrefetchBytes = 32 << 20 // of messages held and, as far as can be known, asked for
)

// prefetch is what the size of the next pull depends on.
type prefetch struct {
	target      int           // messages to hold at once: asked for, waiting, running, committing
	concurrency int           // handlers that run at once
	max         int           // MaxAckPending, or less
	ackWait     time.Duration // server's patience
	rate        float64       // messages ended a second; 0: not known yet
	largest     float64       // bytes of a large message of late; 0: not known yet

	slots     slots
	allowance int // messages that a rate limit lets start soon; 0: no limit
	waitLimit int // messages that may wait for their turn; 0: there are no turns
	waiting   int // that do
}

// bounded is the target under what holds at the moment.
func (p prefetch) bounded() int {
	target := p.slots.target(p.target)
	if p.allowance > 0 {
		target = min(target, p.allowance)
	}
	return target
}

// startPrefetch is the first target: enough to keep the workers busy while the rate is learnt. limit is
// what the server allows; 0: anything.
func startPrefetch(concurrency, limit int, ackWait time.Duration) prefetch {
	if limit <= 0 || limit > maxPrefetch {
		limit = maxPrefetch
	}
	return prefetch{target: min(2*concurrency, limit), concurrency: concurrency, max: limit, ackWait: ackWait}
}

// grown returns the target after a refill: twice as many, but no more than can be ended in a quarter of
// AckWait at the known rate, so that nothing waits past half of it even if the rate halves; never fewer
// than the workers can start at once, never more than the server or the memory allow.
func (p prefetch) grown() int {
	target := 2 * p.target
	if p.rate > 0 {
		target = min(target, p.concurrency+int(p.rate*p.ackWait.Seconds()/4))
	} else {
		target = p.target
	}
	limit := p.max
	if p.largest > 0 {
		limit = min(limit, int(maxPrefetchBytes/p.largest))
	}
	return max(1, min(max(target, p.concurrency), limit))
}

// telling is how many messages have to end before the time that they took says something of the rate: as
// many as run at once, since those that started together end together.
func (p prefetch) telling() int { return max(p.concurrency, p.target/4) }

// shrunk returns the target after messages had to be given back unstarted: what the workers can start.
func (p prefetch) shrunk() int {
	return min(p.concurrency, p.max)
}

// missing returns how many messages to ask for when asked are on their way and held, of so many bytes, have
// not ended: none while three quarters of the target are there and every worker has one, and no more than
// the memory allows, but one if there is nothing at all.
func (p prefetch) missing(asked, held, bytes int) int {
	all, target := asked+held, p.bounded()
	if all > max(target*3/4, p.concurrency) {
		return 0
	}
	n := target - all
	if p.waitLimit > 0 { // whatever comes may have to wait; beyond the room for that only idle workers ask
		n = min(n, max(p.waitLimit-p.waiting-asked, p.concurrency-all))
	}
	if p.largest > 0 {
		n = min(n, int((maxPrefetchBytes-float64(bytes))/p.largest)-asked)
	}
	if all == 0 {
		return max(n, 1)
	}
	return max(n, 0)
}

// sized returns p after a message of so many bytes: large ones are noticed at once and forgotten slowly.
func (p prefetch) sized(bytes int) prefetch {
	p.largest = max(float64(bytes), p.largest+(float64(bytes)-p.largest)/256)
	return p
}

// smoothed folds a new measurement into a mean, weighing it a quarter.
func smoothed(mean, measured float64) float64 {
	if mean == 0 {
		return measured
	}
	return mean + (measured-mean)/4
}
