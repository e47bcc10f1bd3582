package consumer

import (
	"errors"
	"fmt"
	"math"

	"github.com/onefold-go/onefold"
)

// room is how much of session.room there is: a run that must be alone takes all of it, any other run 1. Runs
// take some only in a session that has suspects.
const room = math.MaxInt32

// prepare does what caution asks for before d may run, and reports false if it may not. The worker waits
// meanwhile; the heartbeat keeps the claim.
func (s *session) prepare(w *worker, d *delivery, c caution) bool {
	d.set(stagePending)
	switch c {
	case cautionBlame:
		d.set(stageHandled)
		d.attempt = d.history.Starts
		s.commitDeadLetter(d, verdict{do: actDeadLetter, class: onefold.ClassCutShort, reason: reasonKills}, errors.New(reasonKills))
		return false
	case cautionPark:
		d.set(stageHandled)
		d.attempt = d.history.Starts
		s.commitDeadLetter(d, verdict{do: actPark, class: onefold.ClassUnknown, reason: reasonCutShort}, errors.New(reasonCutShort))
		return false
	}
	if !s.enter(d, c) || (c != cautionNone && !s.countStart(d)) {
		return false
	}
	s.begins(w, d)
	return true
}

// enter waits until d may run beside what runs. A run that must be alone waits for all that came before it, and
// what comes later waits for that one, so that none waits for ever.
func (s *session) enter(d *delivery, c caution) bool {
	d.weight = 1
	if c == cautionAlone {
		d.weight = room
	}
	if err := s.room.Acquire(s.starts, d.weight); err != nil {
		d.weight = 0
		s.notRun(d)
		return false
	}
	return true
}

// yield gives up what d holds of the room. It does so when its outcome is durable or refused, not when its
// handler returns: the next one may kill the process before.
func (s *session) yield(d *delivery) {
	if d.weight > 0 {
		s.room.Release(d.weight)
		d.weight = 0
	}
}

// countStart makes the start of d's run durable.
func (s *session) countStart(d *delivery) bool {
	grant, ok := s.ask(d, stagePending, s.request(d, true))
	switch {
	case !ok:
		s.notRun(d)
		return false
	case grant.Verdict == onefold.Granted && grant.Claim.Token == d.claim.Token:
		return true
	}
	if grant.Verdict == onefold.Granted { // a new claim: whatever happened in between was not seen
		_ = s.unclaim(grant.Claim, onefold.Failure{Reason: "claim lost before it ran"})
	}
	d.set(stageHandled)
	s.abandon(d, fmt.Errorf("%w: before it ran", onefold.ErrLost))
	return false
}

// notRun brings back a message that was claimed and did not run, because the consumer ends.
func (s *session) notRun(d *delivery) {
	d.set(stageHandled)
	s.retryLater(d, verdict{class: onefold.ClassNone, reason: "consumer stopped before the run"})
}
