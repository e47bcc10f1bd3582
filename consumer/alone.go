package consumer

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
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
	if !s.enter(d, c) || (c == cautionAlone && !s.solitude(d)) || (c != cautionNone && !s.countStart(d)) {
		return false
	}
	s.begins(w, d)
	return true
}

// history is what decides how d runs. What is parked when it was cut short is parked for lost claims, too.
func (s *session) history(d *delivery) onefold.History {
	if s.cfg.ParkUnknown || d.history.Starts == 0 { // which it is for all but a few
		return d.history
	}
	return s.outlived.correct(d.key, d.history)
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
		s.notRun(d, 0)
		return false
	}
	if s.stops.refuses() {
		s.yield(d)
		s.notRun(d, giveBackDelay(s.beat.ackWait))
		return false
	}
	return true
}

// yield gives up what d holds of the room. It does so when its outcome is durable or refused, not when its
// handler returns: the next one may kill the process before.
func (s *session) yield(d *delivery) {
	if d.weight == 0 {
		return
	}
	if d.weight == room {
		if permit := s.permit.Swap(nil); permit != nil {
			_ = s.unclaim(permit, onefold.Failure{Reason: "run alone has ended"}) // else it ends with its lease
		}
	}
	s.room.Release(d.weight)
	d.weight = 0
}

// aloneName is the ID of the claim under which one consumer of a store at a time runs something alone.
const aloneName = "alone"

// solitude keeps away from d's run what else of the process works on this store, because a death counts
// against d: the runs that other consumers want to be alone, and the relay. It reports false if d may not run.
func (s *session) solitude(d *delivery) bool {
	if !s.takePermit() {
		s.yield(d)
		s.notRun(d, 0)
		return false
	}
	s.awaitQuiet()
	return true
}

// takePermit waits until no other consumer of the store runs something alone. Processes that share a store do
// not wait for each other: the death of one says nothing of what ran in another.
func (s *session) takePermit() bool {
	if !s.st.Info().OneProcess {
		return true
	}
	request := onefold.Request{Key: onefold.Key{Scope: scopeScope, ID: aloneName}, Lease: s.cfg.Lease, Holder: s.holder()}
	retry := pace.Store()
	for {
		grant, err := s.st.Begin(s.starts, request)
		switch {
		case err == nil && grant.Verdict == onefold.Granted:
			s.permit.Store(grant.Claim)
			return true
		case err != nil && fatalStoreError(err):
			s.fail(err)
			return false
		}
		if !pace.Sleep(s.starts, retry.NextBackOff()) {
			return false
		}
	}
}

// quietPolls and quietPause bound how long a run that must be alone waits for the relay: five seconds.
const (
	quietPolls = 1000
	quietPause = 5 * time.Millisecond
)

// awaitQuiet waits until the relay has nothing in hand. What it carries out may kill the process as well, and
// does so before the start of the suspect is counted. Rows that nobody can send end the waiting, once a session.
func (s *session) awaitQuiet() {
	for n := 0; n < quietPolls && !s.noisy; n++ {
		if st, err := s.st.Stats(s.starts); err != nil || st.OldestWaiting == 0 {
			return // a store that does not answer cannot count the start either
		}
		if !pace.Sleep(s.starts, quietPause) {
			return
		}
	}
	s.noisy = true
}

// countStart makes the start of d's run durable.
func (s *session) countStart(d *delivery) bool {
	grant, ok := s.ask(d, stagePending, s.request(d, true))
	switch {
	case !ok:
		s.notRun(d, 0)
		return false
	case grant.Verdict == onefold.Granted && grant.Claim.Token == d.claim.Token:
		d.counted = true
		return true
	}
	if grant.Verdict == onefold.Granted { // a new claim: whatever happened in between was not seen
		_ = s.unclaim(grant.Claim, onefold.Failure{Reason: "claim lost before it ran"})
	}
	d.set(stageHandled)
	s.abandon(d, fmt.Errorf("%w: before it ran", onefold.ErrLost))
	return false
}

// notRun brings back, after delay, a message that was claimed and did not run, because the consumer ends or pauses.
func (s *session) notRun(d *delivery, delay time.Duration) {
	d.set(stageHandled)
	s.retryLater(d, verdict{class: onefold.ClassNone, delay: delay, reason: "consumer stopped before the run"})
}
