package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/internal/safecall"
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

// receive takes one delivery from the client. It never blocks.
func (s *session) receive(m jetstream.Msg) {
	d := &delivery{ack: m, received: s.clock.Mono()}
	if err := s.describe(d); err != nil {
		s.drop(d, err) // not a message of a stream: nobody waits for an answer
		return
	}
	if s.obs.Received != nil {
		s.obs.Received(s.event(d))
	}
	if s.draining.Load() {
		s.giveBack(d, 0)
		return
	}
	if s.floor.Load().covers(d.msg.Sequence, d.msg.Time) {
		s.ackDuplicate(d)
		s.pull.end(1)
		return
	}
	s.identify(d)
	s.admit(d)
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
	id, err := s.findID(&d.msg)
	if err == nil && id == "" {
		err = dedupe.ErrMissingID
	}
	if err == nil {
		d.key = onefold.Key{Scope: s.cfg.Scope, ID: id}
		d.fingerprint, err = s.digest(&d.msg)
	}
	d.identity = d.key
	if err != nil {
		position, _ := dedupe.PositionID(&d.msg)
		d.reject = rejectID(err)
		d.key = onefold.Key{Scope: s.cfg.Scope}.Derive("missing", position)
	}
}

// findID and digest call functions of the application; a panic in one of them rejects the message instead
// of ending the process.
func (s *session) findID(m *onefold.Message) (id string, err error) {
	defer recoverAs(&err)
	return s.cfg.ID(m)
}

func (s *session) digest(m *onefold.Message) (f onefold.Fingerprint, err error) {
	defer recoverAs(&err)
	return s.cfg.Fingerprint(m), nil
}

func recoverAs(err *error) {
	if v := recover(); v != nil {
		*err = &safecall.PanicError{Value: v}
	}
}

// admit enters d into the registry and queues it for a worker, unless its key is held already.
func (s *session) admit(d *delivery) {
	switch a, held := s.reg.add(d); a {
	case arrivalNew:
		s.work.push(d)
	case arrivalFollows:
		if s.obs.Followed != nil {
			s.obs.Followed(s.event(d))
		}
	case arrivalRepeats:
		s.drop(d, nil)
	case arrivalConflicts:
		s.rejectAs(d, rejectMismatch(held, d.fingerprint))
	}
}

// rejectAs turns d, which is in no registry, into a message that becomes a dead letter. It gets a key
// derived from its ID and its content, because its own key belongs to the other payload.
func (s *session) rejectAs(d *delivery, r *rejection) {
	d.reject = r
	d.key = d.key.Derive("mismatch", d.key.ID+"\x00"+d.fingerprint.String())
	d.set(stageQueued)
	s.admit(d)
}

// claim asks for the right to run d. It reports false if d has ended or gone another way.
func (s *session) claim(w *worker, d *delivery) bool {
	if !d.move(stageQueued, stageClaiming) {
		return false // the heartbeat has given it back
	}
	if stale(s.clock.Mono(), d.received, s.beat) {
		s.giveBackAll(s.release(d), 0)
		s.drop(d, nil)
		return false
	}
	if d.reject != nil {
		if d.move(stageClaiming, stageHandled) {
			s.commitDeadLetter(d, verdict{class: d.reject.class, reason: d.reject.reason})
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
	d.claim, d.history, d.attempt = g.Claim, g.History, g.History.Failures+1
	d.cancel = w.context(s.handlers)
	if !d.move(stageClaiming, stageRunning) {
		s.unclaim(d, onefold.Failure{Reason: "given back before it ran"})
		return false
	}
	return true
}

// begin asks the store until it answers, the delivery is taken back, or the consumer ends.
func (s *session) begin(d *delivery) (onefold.Grant, bool) {
	request := onefold.Request{Key: d.key, Fingerprint: d.fingerprint, Lease: s.cfg.Lease, Holder: s.holder()}
	var retry *backoff.ExponentialBackOff
	for {
		grant, err := s.st.Begin(s.ops, request)
		switch {
		case err == nil:
			s.storeWorks()
			return grant, true
		case errors.Is(err, onefold.ErrDamaged), errors.Is(err, onefold.ErrClosed):
			s.fail(err)
			return grant, false
		case errors.Is(err, onefold.ErrInvalid), errors.Is(err, onefold.ErrTooLarge):
			s.reroute(d, &rejection{class: onefold.ClassPermanent, reason: err.Error()})
			return grant, false
		}
		s.storeFails(err)
		if retry == nil {
			retry = storeBackOff()
		}
		if !s.sleep(retry.NextBackOff()) || d.at() != stageClaiming {
			return grant, false
		}
	}
}

// reroute takes d out of the registry and admits it again as a message that cannot run. Copies that
// waited for it are judged by themselves when they come again.
func (s *session) reroute(d *delivery, r *rejection) {
	if !d.move(stageClaiming, stageQueued) {
		return
	}
	s.giveBackAll(s.reg.remove(d), giveBackDelay(s.beat.ackWait))
	s.rejectAs(d, r)
}

// repeat answers a message whose key is done. A dead letter that has not left yet is waited for.
func (s *session) repeat(d *delivery, r *onefold.Record) {
	if !d.move(stageClaiming, stageHandled) {
		return
	}
	if r.Outcome == onefold.DeadLettered && r.Unsettled > 0 {
		s.settle(d)
		return
	}
	followers := s.release(d)
	s.ackDuplicate(d)
	for _, f := range followers {
		s.ackDuplicate(f)
	}
	s.pull.end(1 + len(followers))
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
	stored := onefold.Fingerprint{}
	if g.Record != nil {
		stored = g.Record.Fingerprint
	}
	s.reroute(d, rejectMismatch(stored, d.fingerprint))
}

// handle runs the handler and acts on how it ended.
func (s *session) handle(w *worker, d *delivery) {
	d.fx = onefold.Effects{}
	d.fx.Init(onefold.RunInfo{Key: d.key, Attempt: d.attempt, Token: d.claim.Token, First: d.history.First, Limits: s.limits}, s.st)
	if s.obs.Claimed != nil {
		s.obs.Claimed(s.event(d))
	}
	w.began, w.running = s.clock.Mono(), d
	err := w.call.Do(func() error { return s.cfg.Handler(w.ctx, &d.msg, &d.fx) })
	w.running = nil
	s.handled(w, d, err)
}

// handled acts on how the handler ended. After a Goexit it runs in a deferred function.
func (s *session) handled(w *worker, d *delivery, err error) {
	entry, buffering := d.fx.Seal()
	if err == nil {
		err = buffering
	}
	lost := !d.move(stageRunning, stageHandled)
	if lost {
		w.discardContext()
	}
	v := afterRun(err, runState{attempt: d.attempt, seed: d.seed(), stopping: s.handlers.Err() != nil, lost: lost}, s.rule)
	if s.obs.Handled != nil {
		e := s.event(d)
		e.Took, e.Class, e.Err = s.clock.Mono()-w.began, v.class, err
		s.obs.Handled(e)
	}
	if v.do == actCommit {
		entry.Fingerprint, entry.Outcome, entry.Retain = d.fingerprint, onefold.Succeeded, s.cfg.Retention
		s.hand(d, entry)
		return
	}
	s.act(d, v)
}

// hand gives an entry to the committers. The worker takes its next message meanwhile.
func (s *session) hand(d *delivery, entry onefold.Entry) {
	d.commit = onefold.Commit{Claim: d.claim, Entry: entry}
	s.commits.push(d)
}

// act carries out a verdict.
func (s *session) act(d *delivery, v verdict) {
	switch v.do {
	case actFinish:
		s.finish(d)
	case actRetry:
		s.retryLater(d, v)
	case actDeadLetter:
		s.commitDeadLetter(d, v)
	case actRerun:
		s.rerun(d)
	case actAbandon:
		s.abandon(d)
	}
}

// commit makes a batch durable and acts on each outcome. What the store could not decide is repeated:
// nothing is acked before it is known.
func (s *session) commit(batch []*delivery) {
	var retry *backoff.ExponentialBackOff
	for len(batch) > 0 {
		pending := make([]*onefold.Commit, len(batch))
		for i, d := range batch {
			d.commit.Err, d.commit.Existing = nil, nil
			pending[i] = &d.commit
		}
		whole := s.st.Commit(s.ops, pending)
		batch = s.committed(batch, whole)
		if len(batch) == 0 {
			break
		}
		if retry == nil {
			retry = storeBackOff()
		}
		if !s.sleep(retry.NextBackOff()) {
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
		gaveUp := d.commit.Entry.Outcome == onefold.DeadLettered
		v := afterCommit(err, gaveUp, runState{attempt: d.attempt, seed: d.seed()}, s.rule)
		switch v.do {
		case actRepeat:
			trouble, again = err, append(again, d)
		case actFail:
			s.fail(err)
		default:
			s.act(d, v)
		}
	}
	if trouble != nil {
		s.storeFails(trouble)
	} else if len(batch) > 0 && whole == nil {
		s.storeWorks()
	}
	return again
}

// finish answers a message whose outcome is durable.
func (s *session) finish(d *delivery) {
	if s.obs.Committed != nil {
		s.obs.Committed(s.event(d))
	}
	if d.commit.Entry.Outcome == onefold.DeadLettered {
		if s.obs.DeadLettered != nil {
			s.obs.DeadLettered(s.event(d))
		}
		s.settle(d)
		return
	}
	s.ackAll(d)
}

// settle acks a dead letter when the relay has sent it: until then its only safe copy is the stream's.
func (s *session) settle(d *delivery) {
	d.set(stageSettling)
	s.background.Go(func() {
		if _, err := s.st.Wait(s.waits, d.key); err != nil {
			s.giveBackAll(append(s.release(d), d), 0)
			return
		}
		s.ackAll(d)
	})
}

// ackAll acks d and the copies that waited for it.
func (s *session) ackAll(d *delivery) {
	followers := s.release(d)
	s.answer(d, d.ack.Ack())
	if s.obs.Acked != nil {
		s.obs.Acked(s.event(d))
	}
	for _, f := range followers {
		s.ackDuplicate(f)
	}
	s.pull.end(1 + len(followers))
}

// ackDuplicate acks a delivery whose work is done by another.
func (s *session) ackDuplicate(d *delivery) {
	s.answer(d, d.ack.Ack())
	if s.obs.Duplicate != nil {
		s.obs.Duplicate(s.event(d))
	}
}

// commitDeadLetter commits a dead letter in place of the message's effects.
func (s *session) commitDeadLetter(d *delivery, v verdict) {
	letter := deadLetter{msg: &d.msg, key: d.identity, class: v.class, reason: v.reason, attempts: d.attempt, earlier: d.history.LastReason}
	s.hand(d, letter.entry(d.key, d.fingerprint, s.cfg.DeadLetterSubject, s.limits.MaxPayload, s.cfg.Retention))
}

// maxConflicts is how often a handler is run again at once when the state it read has moved; after that
// the message waits its turn, so that a hot key does not keep a worker busy in vain.
const maxConflicts = 16

// rerun runs the handler again on the same claim: the state it read has moved. It uses up no attempt.
func (s *session) rerun(d *delivery) {
	d.conflicts++
	if d.conflicts > maxConflicts || s.draining.Load() {
		d.conflicts = 0
		s.retryLater(d, verdict{class: onefold.ClassConflict, delay: s.rule.min, reason: onefold.ErrConflict.Error()})
		return
	}
	s.work.push(d)
}

// resume takes up a delivery whose handler has to run again on the claim it has.
func (s *session) resume(w *worker, d *delivery) bool {
	d.cancel = w.context(s.handlers)
	return d.move(stageHandled, stageRunning)
}

// retryLater gives the claim up and has the message come again. Nothing is answered if the claim is not
// ours any more: the answer would settle somebody else's delivery.
func (s *session) retryLater(d *delivery, v verdict) {
	if d.claim != nil && !s.unclaim(d, onefold.Failure{Reason: v.reason, Counted: v.counted}) {
		s.abandon(d)
		return
	}
	followers := s.release(d)
	if s.obs.Retried != nil {
		e := s.event(d)
		e.Delay, e.Class, e.Err = v.delay, v.class, errors.New(v.reason)
		s.obs.Retried(e)
	}
	s.answer(d, nak(d, v.delay))
	for _, f := range followers {
		s.answer(f, nak(f, v.delay))
	}
	s.pull.end(1 + len(followers))
}

// unclaim releases the claim and reports whether it was ours.
func (s *session) unclaim(d *delivery, f onefold.Failure) bool {
	return s.st.Release(s.ops, d.claim, f) == nil
}

// abandon forgets a delivery without an answer: its claim has ended, and whoever holds it now answers.
// Copies that waited for it come again and are decided by the store.
func (s *session) abandon(d *delivery) {
	if d.at() == stageEnded {
		return // the heartbeat has done it when it found the claim lost
	}
	if s.obs.Lost != nil {
		e := s.event(d)
		e.Class, e.Err = onefold.ClassLost, onefold.ErrLost
		s.obs.Lost(e)
	}
	followers := s.release(d)
	s.giveBackAll(followers, giveBackDelay(s.beat.ackWait))
	s.pull.end(1)
}

// giveBack has the server hand the message to whoever can start it.
func (s *session) giveBack(d *delivery, delay time.Duration) {
	d.set(stageEnded)
	s.answer(d, nak(d, delay))
	if s.obs.GivenBack != nil {
		e := s.event(d)
		e.Delay = delay
		s.obs.GivenBack(e)
	}
	s.pull.end(1)
}

func (s *session) giveBackAll(ds []*delivery, delay time.Duration) {
	for _, d := range ds {
		s.giveBack(d, delay)
	}
}

// drop forgets a delivery without an answer.
func (s *session) drop(d *delivery, err error) {
	d.set(stageEnded)
	if s.obs.Dropped != nil {
		e := s.event(d)
		e.Err = err
		s.obs.Dropped(e)
	}
	s.pull.end(1)
}

// release ends d's stay in the registry and returns the copies that waited for it.
func (s *session) release(d *delivery) []*delivery {
	d.set(stageEnded)
	return s.reg.remove(d)
}

// nak has the message come again, no sooner than after delay.
func nak(d *delivery, delay time.Duration) error {
	if delay <= 0 {
		return d.ack.Nak()
	}
	return d.ack.NakWithDelay(delay)
}

// answer notes an answer that could not be sent. The message then comes again and the store answers it:
// losing an answer costs a delivery and nothing else.
func (s *session) answer(d *delivery, err error) {
	if err == nil || s.obs.Dropped == nil {
		return
	}
	e := s.event(d)
	e.Class, e.Err = onefold.ClassUnavailable, err
	s.obs.Dropped(e)
}

// storeBackOff paces what is repeated until the store answers.
func storeBackOff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(10*time.Millisecond),
		backoff.WithMaxInterval(time.Second), backoff.WithMaxElapsedTime(0))
}

// sleep waits for d and reports false if the consumer ends first.
func (s *session) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.ops.Done():
		return false
	case <-timer.C:
		return true
	}
}

// worker is what one worker goroutine keeps between messages.
type worker struct {
	ctx     context.Context
	stop    context.CancelFunc
	call    safecall.Call
	began   time.Duration
	running *delivery // while its handler runs
}

// context returns the cancel function of the context that the next handler gets. One context serves many
// messages, because making one for each costs more than handling a small message; it is replaced once it
// has been cancelled.
func (w *worker) context(parent context.Context) context.CancelFunc {
	if w.ctx == nil || w.ctx.Err() != nil {
		w.ctx, w.stop = context.WithCancel(parent)
	}
	return w.stop
}

// discardContext gives up a context whose cancel function may still be called by the heartbeat.
func (w *worker) discardContext() {
	if w.stop != nil {
		w.stop()
	}
	w.ctx, w.stop = nil, nil
}
