package consumer

import "time"

// duty is what the heartbeat owes one delivery now.
type duty struct {
	giveBack bool // it waited too long for a worker: let another process have it
	progress bool // tell the server that we still work on it
	renew    bool // extend the claim
}

// heartbeatRule is the part of the configuration that duties depend on.
type heartbeatRule struct {
	ackWait, lease time.Duration
}

// tick is how often the heartbeat looks: often enough to act well within a third of either patience.
func (r heartbeatRule) tick() time.Duration {
	return max(20*time.Millisecond, min(r.ackWait, r.lease)/8)
}

// dutyOf decides what is owed to a delivery at one stage. All times are on the monotonic clock:
// received when it arrived, progressed and renewed when the server and the store last heard of it.
//
// A delivery that has not started by half of AckWait is given back while it still is ours. One that is
// worked on is renewed every third of the patience, so that one lost signal does not lose it.
func dutyOf(s stage, now, received, progressed, renewed time.Duration, r heartbeatRule) duty {
	switch s {
	case stageQueued, stageClaiming:
		return duty{giveBack: now-received >= r.ackWait/2}
	case stageTaken:
		return duty{}
	case stagePending, stageRunning, stageStopping, stageHandled:
		return duty{
			progress: now-max(received, progressed) >= r.ackWait/3,
			renew:    now-max(received, renewed) >= r.lease/3,
		}
	case stageSettling, stageWaiting:
		return duty{progress: now-max(received, progressed) >= r.ackWait/3}
	}
	return duty{}
}

// stale reports whether a delivery may have been handed to somebody else already: it waited for a whole
// AckWait unheard, for instance because this process stood still. It is then dropped without an answer.
func stale(now, received time.Duration, r heartbeatRule) bool {
	return now-received >= r.ackWait-r.ackWait/10
}

// giveBackDelay is how long the server keeps a message that had to be given back for lack of workers, so
// that it does not return to this process at once.
func giveBackDelay(ackWait time.Duration) time.Duration {
	return min(ackWait/4, time.Second)
}
