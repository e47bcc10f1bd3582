package consumer

import (
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/internal/pace"
)

// This file is one message's life, top to bottom. The names in brackets are the crash points of
// docs/guarantees.md: if the process dies at one of them, the message comes again and what follows is
// decided by what the store holds.
//
//	receive [received]   identify it, see whether it is held or settled already
//	claim   [claimed]    ask the store for the exclusive right to run it
//	handle  [handled]    run the handler, buffer its effects
//	commit  [committed]  make effects, state and mark durable in one step
//	finish  [acked]      tell the server
//
// receive runs on the client's goroutine, claim and handle on a worker, commit and finish on a committer.
// answer.go is how a delivery ends, rerun.go what follows when state moves under a run, trouble.go what happens
// while the store does not answer.

// receive takes one delivery from the client. It never blocks.
func (s *session) receive(m jetstream.Msg) {
	d := &delivery{ack: m, received: s.clock.Mono()}
	if err := s.describe(d); err != nil {
		s.drop(d, err) // not a message of a stream: nobody waits for an answer
		return
	}
	s.pull.cameBack(d.msg.Sequence)
	if s.reg.lanes != nil {
		defer s.reg.arrived(d.msg.Sequence)
	}
	if s.obs.Received != nil {
		s.obs.Received(s.event(d))
	}
	if s.draining.Load() {
		s.giveBack(d, 0)
		return
	}
	if s.stops.refuses() {
		s.refuse(d)
		return
	}
	if s.floor.Load().covers(d.msg.Subject, d.msg.Sequence, d.msg.Time) {
		s.ackDuplicate(d)
		return
	}
	switch s.cfg.addressee(&d.msg) {
	case toAnother:
		s.reg.saw(d)
		s.ackDuplicate(d) // a copy that has come again for another consumer; ours has its own place in the stream
		return
	case toUs:
		d.redriven = true
	}
	s.identify(d)
	s.admit(d)
}

// refuse gives back what arrives while nothing may start. With an order it has been seen nevertheless.
func (s *session) refuse(d *delivery) {
	d.delay = giveBackDelay(s.beat.ackWait)
	if to := s.cfg.addressee(&d.msg); s.reg.lanes != nil && to != toAnother {
		d.redriven = to == toUs
		s.identify(d)
		s.reg.pass(d)
	}
	s.giveBack(d, d.delay)
}

// describe fills in the message.
func (s *session) describe(d *delivery) error {
	meta, err := d.ack.Metadata()
	if err != nil {
		return err
	}
	d.msg = onefold.Message{
		Subject: d.ack.Subject(), Header: onefold.Header(d.ack.Headers()), Data: d.ack.Data(),
		Stream: s.cfg.Stream, Consumer: s.cfg.Name, Sequence: meta.Sequence.Stream, Time: meta.Timestamp,
	}
	return nil
}

// identify finds the key and the fingerprint. A message without an ID gets a key of its own that depends
// on its position, so that two of them never fold into one.
func (s *session) identify(d *delivery) {
	key, err := s.findKey(d)
	if err == nil {
		d.key = key
		d.fingerprint, err = s.digest(&d.msg)
	}
	d.identity = d.key
	if err != nil {
		position, _ := dedupe.PositionID(&d.msg)
		d.reject = rejectID(err)
		d.key = onefold.Key{Scope: s.cfg.Scope}.Derive("missing", position)
	}
	if s.cfg.OrderBy != nil {
		s.order(d)
	}
}

// admit enters d into the registry and queues it for a worker, unless its key is held already.
func (s *session) admit(d *delivery) {
	var arrived onefold.DeliveryEvent
	if s.obs.Followed != nil {
		arrived = s.event(d) // a follower belongs to whoever ends the first copy as soon as it is entered
	}
	switch a, held := s.reg.add(d); a {
	case arrivalNew:
		if !s.work.push(d) {
			s.giveBackAll(append(s.release(d), d), 0)
		}
	case arrivalFollows:
		s.pull.displace(d)
		if s.obs.Followed != nil {
			s.obs.Followed(arrived)
		}
	case arrivalRepeats:
		s.drop(d, nil)
	case arrivalWaits:
	case arrivalCrowds:
		if d.delay == 0 {
			d.delay = giveBackDelay(s.beat.ackWait)
		}
		s.giveBack(d, d.delay)
	case arrivalConflicts:
		s.rejectAs(d, rejectMismatch(held, d.fingerprint))
	}
}

// rejectAs turns d, which nobody else knows of, into a message that becomes a dead letter. It gets a key
// derived from its ID and its content, because its own key belongs to the other payload.
func (s *session) rejectAs(d *delivery, r *rejection) {
	d.reject = r
	d.key = d.key.Derive("mismatch", d.key.ID+"\x00"+d.fingerprint.String())
	s.admit(d)
}

// claim asks for the right to run d. It reports false if d has ended or gone another way.
func (s *session) claim(w *worker, d *delivery) bool {
	if !d.move(stageQueued, stageClaiming) {
		return false // the heartbeat has given it back
	}
	if stale(s.clock.Mono(), d.since(), s.beat) {
		if d.move(stageClaiming, stageEnded) {
			followers := s.reg.remove(d)
			s.drop(d, nil)
			s.giveBackAll(followers, 0)
		}
		return false
	}
	if s.stops.refuses() {
		if d.move(stageClaiming, stageEnded) {
			s.giveBackAll(append(s.reg.remove(d), d), giveBackDelay(s.beat.ackWait))
		}
		return false
	}
	if d.reject != nil {
		if d.move(stageClaiming, stageHandled) {
			s.commitDeadLetter(d, verdict{class: d.reject.class, reason: d.reject.reason}, d.reject.cause)
		}
		return false
	}
	grant, ok := s.begin(d)
	if !ok {
		return false
	}
	switch grant.Verdict {
	case onefold.Granted:
		return s.granted(w, d, grant)
	case onefold.Done:
		s.repeat(d, grant.Record)
	case onefold.Busy:
		s.busy(d, grant.RetryAfter)
	case onefold.Mismatch:
		s.mismatch(d, grant)
	}
	return false
}

// granted takes over the claim, unless the delivery was given back while the store decided.
func (s *session) granted(w *worker, d *delivery, g onefold.Grant) bool {
	if !d.move(stageClaiming, stageTaken) {
		// If this fails the claim ends with its lease.
		_ = s.unclaim(g.Claim, onefold.Failure{Reason: "given back before it ran"})
		return false
	}
	d.claim, d.history, d.attempt = g.Claim, g.History, g.History.Failures+1
	if d.history.First.IsZero() {
		d.history.First = s.clock.Wall()
	}
	wary := s.wary.Load()
	if c := beforeRun(s.history(d), d.msg.Sequence <= s.suspects.Until, wary, s.cfg.ParkUnknown); c != cautionNone || wary {
		return s.prepare(w, d, c)
	}
	s.begins(w, d)
	return true
}

// reroute takes d out of the registry and admits it again as a message that cannot run. Copies that
// waited for it are judged by themselves when they come again.
func (s *session) reroute(d *delivery, r *rejection) {
	if !d.move(stageClaiming, stageEnded) {
		return
	}
	s.giveBackAll(s.reg.remove(d), giveBackDelay(s.beat.ackWait))
	// It goes on as another delivery, because the heartbeat may still be looking at this one.
	heir := d.successor()
	heir.order, heir.rank = d.order, d.msg.Sequence
	s.rejectAs(heir, r)
}

// repeat answers a message whose key is done. A dead letter that has not left yet is waited for.
func (s *session) repeat(d *delivery, r *onefold.Record) {
	if !d.move(stageClaiming, stageHandled) {
		return
	}
	d.outcome, d.result = r.Outcome, resultOf(r)
	if r.Outcome != onefold.Succeeded && r.Unsettled > 0 {
		s.settle(d)
		return
	}
	followers := s.release(d)
	s.ackDuplicate(d)
	s.ackFollowers(d, followers)
}

// busy brings a message again when the run that holds its key may have ended. That run is not one of this
// consumer's deliveries, or the registry would know.
func (s *session) busy(d *delivery, after time.Duration) {
	if d.move(stageClaiming, stageHandled) {
		s.retryLater(d, verdict{delay: min(after, s.rule.max), reason: "key is held by another run"})
	}
}

// mismatch makes a dead letter of a message whose ID was used with another payload.
func (s *session) mismatch(d *delivery, g onefold.Grant) {
	s.reroute(d, rejectMismatch(g.Held, d.fingerprint))
}

// handle runs the handler and acts on how it ended.
func (s *session) handle(w *worker, d *delivery) {
	// A goroutine that an earlier run has left behind may still hold that run's effects: a rerun gets its own.
	if d.fx = &d.first; d.conflicts > 0 {
		d.fx = new(onefold.Effects)
	}
	d.fx.Init(onefold.RunInfo{
		Key: d.key, Attempt: d.attempt, Token: d.claim.Token, First: d.history.First, Limits: s.limits, StoreKind: s.storeKind,
	}, s.st)
	if s.obs.Claimed != nil {
		s.obs.Claimed(s.event(d))
	}
	w.running = d
	err := w.call.Do(func() error { return s.cfg.Handler(w.ctx, &d.msg, d.fx) })
	w.running = nil
	s.handled(w, d, err)
}

// handled acts on how the handler ended. After a Goexit it runs in a deferred function.
func (s *session) handled(w *worker, d *delivery, err error) {
	entry, buffering := d.fx.Seal()
	d.reads = entry.Reads
	if err == nil {
		err = buffering
	}
	lost := !s.returned(w, d)
	state := runState{attempt: d.attempt, seed: d.seed(), reruns: d.conflicts, stopping: s.handlers.Err() != nil, timedOut: d.timedOut, lost: lost}
	v := afterRun(err, state, s.rule)
	if s.cfg.ParkUnknown {
		v = parkRun(v, err, state)
	}
	if s.obs.Handled != nil {
		e := s.event(d)
		e.Took, e.Class, e.Err = s.clock.Mono()-time.Duration(d.ran.Load()), v.class, err
		s.obs.Handled(e)
	}
	if lost {
		if w.replaced {
			s.buried(d)
		}
		return // the heartbeat has answered it when it took the claim away
	}
	if v.do == actCommit {
		entry.Fingerprint, entry.Outcome, entry.Retain = d.fingerprint, onefold.Succeeded, s.cfg.Retention
		s.hand(d, entry)
		return
	}
	s.act(d, v, err)
}

// hand gives an entry to the committers. The worker takes its next message meanwhile.
func (s *session) hand(d *delivery, entry onefold.Entry) {
	if d.commit = &d.own; d.repeated { // a store that has not answered may still write into that
		d.commit = new(onefold.Commit)
	}
	*d.commit = onefold.Commit{Claim: d.claim, Entry: entry}
	if !s.commits.push(d) {
		s.abandon(d, ErrHandlersRunning) // its handler has returned after the consumer has stopped
	}
}

// act carries out a verdict.
func (s *session) act(d *delivery, v verdict, err error) {
	switch v.do {
	case actFinish:
		s.finish(d)
	case actRetry:
		s.retryLater(d, v)
	case actDeadLetter, actPark:
		s.commitDeadLetter(d, v, err)
	case actRerun:
		s.rerun(d)
	case actAbandon:
		s.abandon(d, err)
	}
}

// commit makes a batch durable and acts on each outcome. What the store could not decide is repeated:
// nothing is acked before it is known.
func (s *session) commit(batch []*delivery) {
	var retry *backoff.ExponentialBackOff
	for len(batch) > 0 {
		pending := make([]*onefold.Commit, len(batch))
		for i, d := range batch {
			pending[i] = d.commit
		}
		whole := s.st.Commit(s.ops, pending)
		batch = s.committed(batch, whole)
		if len(batch) == 0 {
			break
		}
		if retry == nil {
			retry = pace.Store()
		}
		if !pace.Sleep(s.ops, retry.NextBackOff()) {
			return // the consumer has ended: unanswered messages come again and are decided by the store
		}
	}
}

// committed acts on the outcomes of a batch and returns what has to be committed again.
func (s *session) committed(batch []*delivery, whole error) (again []*delivery) {
	var trouble error
	for _, d := range batch {
		err := d.commit.Err
		if whole != nil {
			err = whole
		}
		outcome := d.commit.Entry.Outcome
		v := afterCommit(err, outcome != onefold.Succeeded, runState{attempt: d.attempt, seed: d.seed()}, s.rule)
		if s.cfg.ParkUnknown {
			v = parkCommit(v, err, outcome)
		}
		switch v.do {
		case actRepeat:
			// A store that has not answered may still write into what it was given.
			d.repeated, d.commit = true, &onefold.Commit{Claim: d.commit.Claim, Entry: d.commit.Entry}
			trouble, again = err, append(again, d)
		case actFail:
			s.fail(err)
		default:
			s.act(d, v, err)
		}
	}
	if trouble != nil {
		s.storeFails(callCommit, trouble)
	} else if whole == nil {
		s.storeWorks(callCommit)
	}
	return again
}

// finish answers a message whose outcome is durable.
func (s *session) finish(d *delivery) {
	d.outcome, d.result.body = d.commit.Entry.Outcome, d.commit.Entry.Result
	gaveUp := d.outcome != onefold.Succeeded
	// What an earlier delivery of a rejected message has stored is told of once.
	if d.commit.Existing == nil || d.repeated {
		if s.obs.Committed != nil {
			s.obs.Committed(s.event(d))
		}
		if gaveUp && s.obs.DeadLettered != nil {
			s.obs.DeadLettered(s.event(d))
		}
	}
	if gaveUp {
		s.settle(d)
		return
	}
	s.ackAll(d)
}
