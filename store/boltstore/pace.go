package boltstore

import (
	"runtime"
	"time"
)

// workSlice is how long the upkeep works before it rests.
const workSlice = 500 * time.Microsecond

// rest decides how long the upkeep rests after it has worked for so long while commits were written. It takes a
// third of a processor, which is what it needs at half of the highest rate of commits; with segments
// waiting to be sealed it takes more, so that they do not become many. If the writer is hardly ever idle, commits
// wait for it anyway and what is put off only slows them later: the upkeep does not rest at all.
func rest(worked time.Duration, frozen int, idle float64) time.Duration {
	switch {
	case frozen > 2 || idle < leastIdle:
		return 0
	case frozen == 2:
		return worked / 2
	}
	return 2 * worked
}

// leastIdle is the share of its time for which a writer waits that is not used up.
const leastIdle = 0.15

// pace belongs to whoever holds the lock of the upkeep.
type pace struct {
	began time.Duration // monotonic; of the slice
	idle  time.Duration // of the writer, until then
	share float64       // of the time for which the writer waited, lately
}

// look takes note of a slice that ends now. One slice says little, so it counts for a fiftieth.
func (p *pace) look(now, idle time.Duration) {
	if took := now - p.began; took > 0 {
		p.share += (min(float64(idle-p.idle)/float64(took), 1) - p.share) / 50
	}
	p.began, p.idle = now, idle
}

// busyFor is how long after a group the store counts as busy.
const busyFor = 20 * time.Millisecond

// between is called by all work, every tenth of a millisecond or so. It ends the work when the store is closed or
// has stopped, and else lets commits go first: each passes through several goroutines, and would wait in
// each for as long as the scheduler lets one run that never pauses.
func (s *Store) between() error {
	select {
	case <-s.closing:
		return errStopped
	default:
	}
	runtime.Gosched()
	now := s.clock.Mono()
	worked := now - s.pace.began
	if worked < workSlice {
		return nil
	}
	if now-time.Duration(s.wrote.Load()) < busyFor {
		frozen := s.pieces.state().frozen
		if d := rest(worked, frozen, s.pace.share); d > 0 {
			timer := time.NewTimer(min(d, longestRest))
			defer timer.Stop()
			select {
			case <-s.closing:
				return errStopped
			case <-timer.C:
			}
		}
	}
	s.pace.look(s.clock.Mono(), time.Duration(s.idle.Load()))
	return nil
}

// longestRest bounds a rest after a step that took long, or after a clock that was moved.
const longestRest = 20 * time.Millisecond
