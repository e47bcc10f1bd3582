package boltstore

import (
	"runtime"
	"time"
)

// workSlice is how long the upkeep works before it rests.
const workSlice = 500 * time.Microsecond

// rest decides how long the upkeep rests after it has worked for so long while commits were written. It takes a
// third of a processor, which is what it needs at half of the highest rate of commits; with segments
// waiting to be sealed it takes more, so that they do not become many.
func rest(worked time.Duration, frozen int) time.Duration {
	switch {
	case frozen > 2:
		return 0
	case frozen == 2:
		return worked / 2
	}
	return 2 * worked
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
	worked := now - s.slice
	if worked < workSlice {
		return nil
	}
	if now-time.Duration(s.wrote.Load()) < busyFor {
		frozen := s.pieces.state().frozen
		timer := time.NewTimer(min(rest(worked, frozen), longestRest))
		defer timer.Stop()
		select {
		case <-s.closing:
			return errStopped
		case <-timer.C:
		}
	}
	s.slice = s.clock.Mono()
	return nil
}

// longestRest bounds a rest after a step that took long, or after a clock that was moved.
const longestRest = 20 * time.Millisecond
