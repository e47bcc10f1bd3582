package boltstore

import (
	"runtime"
	"time"
)

// workSlice is how long the upkeep works before it may rest. While it works one processor is taken: the scheduler does
// not move to it what waits for another, so that a long slice makes commits wait however often it yields.
const workSlice = 100 * time.Microsecond

// behind is how many pieces of work wait when commits come faster than the upkeep can follow in what they leave free.
// Then it does not rest: what it puts off would have to be done all the same, and each segment that waits to be sealed is
// looked at by every commit.
const behind = 3

// rest decides how long the upkeep rests after it has worked for so long while commits were written. need is the
// share of a processor that its work takes at the present rate of commits: the work is spread over nearly all
// of the time, so that commits are hindered little and always instead of much and at times. With more than one piece
// of work waiting it takes more, so that they do not become many.
func rest(worked time.Duration, waiting int, need float64) time.Duration {
	const spread, least = 0.9, 0.02
	share := need / spread
	switch {
	case waiting >= behind || need < least: // so few commits are hardly hindered
		return 0
	case waiting == behind-1:
		share *= 2
	}
	if share >= 1 {
		return 0
	}
	return time.Duration(float64(worked) * (1/share - 1))
}

// pace is what the upkeep knows of its own work and of commits. It belongs to whoever has its turn.
type pace struct {
	merging int           // 1: a merge is under way
	waiting int           // it, and the segments that wait to be sealed
	began   time.Duration // of the slice
	records uint64        // committed until then

	owed   time.Duration // rest that has been earned and not been taken
	rate   float64       // of commits lately, records/s
	worked time.Duration // since a segment was sealed
	cost   float64       // of a record, in seconds of work, merging and all
}

// The cost of a record before it is known, and how much the latest slice, or segment, counts in what is known.
const (
	firstCost  = 1e-6
	sliceShare = 0.02
	sealShare  = 0.3
)

// look takes note of a slice that ends now: of worked, and of the time since it began, rest included.
func (p *pace) look(now, worked time.Duration, records uint64) {
	p.worked += worked
	if took := now - p.began; took > 0 && took < time.Second {
		p.rate += (float64(records-p.records)/took.Seconds() - p.rate) * sliceShare
	}
	p.began, p.records = now, records
}

// sealed takes note of a segment that is sealed.
func (p *pace) sealed(records int) {
	cost := p.worked.Seconds() / float64(max(records, 1))
	if p.cost == 0 {
		p.cost = firstCost
	}
	p.cost += (min(cost, 10*firstCost) - p.cost) * sealShare
	p.worked = 0
}

// need is the share of a processor that the work takes.
func (p *pace) need() float64 { return max(p.cost, firstCost) * p.rate }

// busyFor is how long after a group the store counts as busy.
const busyFor = 20 * time.Millisecond

// A rest shorter than leastRest is put off, since timers are not that exact; longestRest bounds it after a step that
// took long.
const (
	leastRest   = 200 * time.Microsecond
	longestRest = 20 * time.Millisecond
)

// real is the time since the store was made in memory. The pace goes by it and not by Options.Clock: it shares out
// processors, which know no other.
func (s *Store) real() time.Duration { return time.Since(s.started) }

// ending reports whether the store is being closed or has stopped.
func (s *Store) ending() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// between is called by all work, by whoever has the turn of the upkeep, every tenth of a millisecond or so. It ends
// the work when the store is closed or has stopped, and else lets commits go first: each passes through several
// goroutines, and would wait in each for as long as the scheduler lets one run that never pauses.
func (s *Store) between() error {
	if s.ending() {
		return errStopped
	}
	p := &s.pace
	runtime.Gosched()
	now := s.real()
	worked := now - p.began
	if worked < workSlice {
		return nil
	}
	p.waiting = s.pieces.state().frozen + p.merging
	earned := rest(worked, p.waiting, p.need())
	if earned == 0 || now-time.Duration(s.wrote.Load()) >= busyFor {
		earned, p.owed = 0, 0
	}
	p.owed = min(p.owed+earned, longestRest)
	if p.owed >= leastRest {
		timer := time.NewTimer(p.owed)
		defer timer.Stop()
		select {
		case <-s.closing:
			return errStopped
		case <-timer.C:
		}
		p.owed -= s.real() - now // it is woken late where there is much to do, and rests less for it
	}
	p.look(s.real(), min(worked, longestRest), s.committed.Load())
	return nil
}
