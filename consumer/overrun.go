package consumer

import (
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
)

// This file decides what becomes of a run that takes too long; zombie.go carries it out.

// overrunRule is the part of Config that decides how long a run may take.
type overrunRule struct {
	timeout time.Duration // its context is cancelled then
}

// The bounds of the grace between telling a handler to stop and giving its run up.
const (
	minGrace = 100 * time.Millisecond
	maxGrace = 10 * time.Second
)

// grace is how long a handler that was told to stop may take to return: a quarter of what it had, within
// bounds. Most need it for cleaning up only.
func (r overrunRule) grace() time.Duration {
	return min(max(r.timeout/4, minGrace), maxGrace)
}

// tick is how often runs have to be looked at so that each is stopped within an eighth of its time.
func (r overrunRule) tick() time.Duration { return max(20*time.Millisecond, r.timeout/8) }

// overrun is what is due to a run that takes too long.
type overrun uint8

const (
	overrunNone   overrun = iota
	overrunStop           // cancel its context
	overrunRevoke         // take its claim away: the message may run again
)

// overrunOf decides what is due to a run at a stage. began and stopped are when the handler was called and
// told to stop, on the monotonic clock. The grace starts when it is told, so that a process that stood still
// for longer than all of it does not give up runs that had no time to end.
func overrunOf(s stage, now, began, stopped time.Duration, r overrunRule) overrun {
	switch {
	case s == stageRunning && now-began >= r.timeout:
		return overrunStop
	case s == stageStopping && now-stopped >= r.grace():
		return overrunRevoke
	}
	return overrunNone
}

// afterOverrun decides what becomes of a message whose run was given up. It used up an attempt.
func afterOverrun(ran time.Duration, park bool, s runState, r retryRule) (verdict, error) {
	err := fmt.Errorf("%w: still running after %v", ErrHandlerTimeout, ran.Round(time.Millisecond))
	if park {
		return verdict{do: actPark, class: onefold.ClassUnknown, reason: "outcome unknown: " + err.Error()}, err
	}
	return afterFailure(err, onefold.ClassTimeout, s, r), err
}

// zombieLimit is how many zombies a session bears. Each keeps a goroutine and whatever the handler holds, and
// nothing but the end of the process frees them.
func zombieLimit(concurrency int) int { return max(8, concurrency) }
