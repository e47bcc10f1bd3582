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
	if limiter == nil {
		return true
	}
	if d.at() != stageQueued {
		return false // it was given back: it takes nobody's token
	}
	if limiter.AllowN(time.Now(), 1) {
		return true
	}
	if !d.move(stageQueued, stageWaiting) {
		return false
	}
	for {
		r, delay := limiter.Reserve(), limiterLook
		soon := r.OK() && r.Delay() <= limiterLook
		if soon {
			delay = r.Delay()
		} else {
			r.Cancel() // somebody may raise the limit meanwhile
		}
		switch alive := pace.Sleep(s.starts, delay); {
		case !alive || d.at() != stageWaiting:
			r.Cancel()
			if d.move(stageWaiting, stageEnded) {
				s.giveBackAll(append(s.reg.remove(d), d), 0)
			}
			return false
		case soon:
			return d.move(stageWaiting, stageQueued)
		}
	}
}

// limiterLook is how long a worker waits before it asks a slow limiter again.
const limiterLook = 250 * time.Millisecond

// rateAllowance is how many messages a limiter lets start within a quarter of AckWait: more are not asked for, so
// that none waits past half of it unstarted.
func rateAllowance(tokens float64, perSecond rate.Limit, ackWait time.Duration) int {
	if perSecond == rate.Inf {
		return 0 // no bound
	}
	return int(max(1, min(tokens+float64(perSecond)*ackWait.Seconds()/4, maxPrefetch)))
}
