package consumer

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/onefold-go/onefold/internal/pace"
)

// This file is Config.RateLimit. A worker takes a token for each message before it claims it. Meanwhile the
// message counts as waiting: the server hears of it, so that it does not go stale however slow the rate is, and it
// is given back when the consumer pauses or stops.

// mayStart waits until the rate limit lets d start. It reports false if d has gone another way meanwhile.
func (s *session) mayStart(d *delivery) bool {
	limiter := s.cfg.RateLimit
	if limiter == nil || limiter.AllowN(time.Now(), 1) {
		return true
	}
	if !d.move(stageQueued, stageWaiting) {
		return false
	}
	for limiter.Wait(s.starts) != nil {
		// The consumer stops, or the limiter lets nothing pass now: somebody may raise its limit.
		if !pace.Sleep(s.starts, limiterLook) {
			if d.move(stageWaiting, stageEnded) {
				s.giveBackAll(append(s.reg.remove(d), d), 0)
			}
			return false
		}
		if d.at() != stageWaiting {
			return false
		}
	}
	return d.move(stageWaiting, stageQueued)
}

// limiterLook is how often a limiter of rate 0 is asked again.
const limiterLook = 250 * time.Millisecond

// rateAllowance is how many messages a limiter lets start within a quarter of AckWait: more are not asked for, so
// that none waits past half of it unstarted.
func rateAllowance(tokens float64, perSecond rate.Limit, ackWait time.Duration) int {
	if perSecond == rate.Inf {
		return 0 // no bound
	}
	return int(max(1, min(tokens+float64(perSecond)*ackWait.Seconds()/4, maxPrefetch)))
}
