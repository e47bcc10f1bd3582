package outbox

import "time"

// turns decides when rows come back for which a function had no room. It books them one behind the other at the
// rate at which calls end, so that each is given back about once however many there are, and none waits much longer
// than it must. It is guarded by the lock of calls.
type turns struct {
	first time.Duration // monotonic time of the first call
	took  time.Duration // how long a call takes, smoothed; 0: none has ended
	next  time.Duration // monotonic time that is not booked yet
}

// smoothing is how many calls one call is mixed with.
const smoothing = 8

// note takes the time of a call that has ended.
func (t *turns) note(took time.Duration) {
	if t.took == 0 {
		t.took = max(took, 1)
		return
	}
	t.took = max(t.took+(took-t.took)/smoothing, 1)
}

// book returns after how long a row comes back: when half of the hold has been called, and behind those that were
// booked before, but no later than latest.
func (t *turns) book(now time.Duration, window, hold int, latest time.Duration) time.Duration {
	took := t.took
	if took == 0 {
		took = now - t.first // at least that long
	}
	each := took / time.Duration(window)
	at := max(t.next, now+each*time.Duration(hold/2))
	if at-now >= latest {
		return latest
	}
	t.next = at + each
	return max(at-now, minDuration)
}
