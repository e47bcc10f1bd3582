package outbox

import "time"

// turns decides when rows come back for which a function had no room. It books them one behind the other at the
// rate at which calls end, so that each is given back about once however many there are, and none waits much longer
// than it must. It is guarded by the lock of calls.
type turns struct {
	ended time.Duration // monotonic time when the last call has ended, or the first after none has begun
	took  time.Duration // how long a call takes, smoothed; 0: none has ended
	next  time.Duration // monotonic time that is not booked yet
	away  []time.Duration
}

const (
	// smoothing is how many calls one call is mixed with.
	smoothing = 8

	// batchShare is the time for which one batch of rows is out of the way. Rows that come back are older than the
	// messages behind them and so are handed out first: with more than some batches a second nothing else would be.
	batchShare = 200 * time.Millisecond
)

// maxIdle is how much of the time without a call counts as the time that a call takes. Some of it has to: a function that
// refuses at once has such a gap before each of its rounds, and its rows would come back faster than others are sent.
const maxIdle = 20 * time.Millisecond

// wake notes that a call begins and no other is under way.
func (t *turns) wake(now time.Duration) {
	if t.ended == 0 {
		t.ended = now
	}
	t.ended = max(t.ended, now-maxIdle)
}

// note takes the time of a call that has ended.
func (t *turns) note(now, took time.Duration) {
	t.ended = now
	if t.took == 0 {
		t.took = max(took, 1)
		return
	}
	t.took = max(t.took+(took-t.took)/smoothing, 1)
}

// book returns after how long a row comes back: when half of the held rows have been called, and behind those that were
// booked before. That is no later than latest, or than all rows that are away take to come back in few batches.
func (t *turns) book(now time.Duration, window, held int, latest time.Duration) time.Duration {
	for len(t.away) > 0 && t.away[0] <= now {
		t.away = t.away[1:]
	}
	took := max(t.took, now-t.ended) // what has not ended for so long takes at least that long
	each := took / time.Duration(window)
	at := max(t.next, now+each*time.Duration(held/2), now+minDuration)
	latest += time.Duration(len(t.away)) * batchShare / time.Duration(max(held, 1))
	if at-now > latest {
		at = now + latest
	} else {
		t.next = at + each
	}
	t.away = append(t.away, at)
	return at - now
}
