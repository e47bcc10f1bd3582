package consumer

import (
	"errors"
	"time"

	"github.com/onefold-go/onefold"
)

// This file is how a delivery ends. Each arrival ends exactly once, in one of these ways: acked, acked as a
// duplicate, brought again later, given back, or forgotten without an answer. Whoever ends a delivery has
// taken it by its stage first.

// ackAll acks d and the copies that waited for it.
func (s *session) ackAll(d *delivery) {
	followers := s.release(d)
	s.reply(d)
	if s.sent(d, d.ack.Ack()) && s.obs.Acked != nil {
		s.obs.Acked(s.event(d))
	}
	s.pull.end(d)
	s.ackFollowers(d, followers)
}

// ackFollowers acks the copies that waited for d.
func (s *session) ackFollowers(d *delivery, followers []*delivery) {
	for _, f := range followers {
		f.outcome, f.result, f.cause = d.outcome, d.result, d.cause
		s.ackDuplicate(f)
	}
}

// ackDuplicate acks a delivery whose work is done by another.
func (s *session) ackDuplicate(d *delivery) {
	d.set(stageEnded)
	s.reply(d)
	if s.sent(d, d.ack.Ack()) && s.obs.Duplicate != nil {
		s.obs.Duplicate(s.event(d))
	}
	s.pull.end(d)
}

// settle acks a dead letter when the relay has sent it: until then its only safe copy is the stream's.
// Meanwhile it takes no place in the prefetch, so that dead letters that cannot be sent stop others only when
// they hold all of MaxAckPending.
func (s *session) settle(d *delivery) {
	d.set(stageSettling)
	s.yield(d)
	s.passTurn(d)
	s.reg.settle(d)
	s.pull.displace(d)
	s.background.Go(func() {
		if _, err := s.st.Wait(s.waits, d.key); err != nil {
			s.unsettled(d)
			return
		}
		s.ackAll(d)
	})
}

// unsettled brings back a message whose dead letter is not known to be sent: at once if the consumer
// stops, else later, because the store is in trouble.
func (s *session) unsettled(d *delivery) {
	delay := giveBackDelay(s.beat.ackWait)
	if s.waits.Err() != nil {
		delay = 0
	}
	s.giveBackAll(append(s.release(d), d), delay)
}

// retryLater gives the claim up and has the message come again. Nothing is answered if the claim is not
// ours any more: the answer would settle somebody else's delivery.
func (s *session) retryLater(d *delivery, v verdict) {
	if d.claim != nil {
		if err := s.unclaim(d.claim, onefold.Failure{Reason: v.reason, Counted: v.counted}); err != nil {
			s.abandon(d, err)
			return
		}
	}
	if d.order != "" {
		v.delay = s.hold(d, v.delay)
	}
	followers := s.release(d)
	if s.sent(d, s.nak(d, v.delay)) && s.obs.Retried != nil {
		e := s.event(d)
		e.Delay, e.Class, e.Err = v.delay, v.class, errors.New(v.reason)
		s.obs.Retried(e)
	}
	s.pull.end(d)
	s.giveBackAll(followers, v.delay)
}

// unclaim releases a claim. Only after a nil error may its message be answered.
func (s *session) unclaim(c *onefold.Claim, f onefold.Failure) error {
	return s.st.Release(s.ops, c, f)
}

// abandon forgets a delivery without an answer: its claim has ended or may have, and whoever holds it now
// answers. Copies that waited for it come again and are decided by the store.
func (s *session) abandon(d *delivery, err error) {
	followers := s.release(d)
	s.tellLost(d, err)
	s.pull.end(d)
	s.giveBackAll(followers, giveBackDelay(s.beat.ackWait))
}

func (s *session) tellLost(d *delivery, err error) {
	if d.counted {
		s.outlived.add(d.key)
	}
	if s.obs.Lost != nil {
		e := s.event(d)
		e.Class, e.Err = onefold.ClassLost, err
		s.obs.Lost(e)
	}
}

// giveBack has the server hand the message to whoever can start it.
func (s *session) giveBack(d *delivery, delay time.Duration) {
	d.set(stageEnded)
	if s.sent(d, s.nak(d, delay)) && s.obs.GivenBack != nil {
		e := s.event(d)
		e.Delay = delay
		s.obs.GivenBack(e)
	}
	s.pull.end(d)
}

func (s *session) giveBackAll(ds []*delivery, delay time.Duration) {
	for _, d := range ds {
		s.giveBack(d, delay)
	}
}

// drop forgets a delivery without an answer.
func (s *session) drop(d *delivery, err error) {
	d.set(stageEnded)
	s.tellDropped(d, onefold.ClassNone, err)
	s.pull.end(d)
}

func (s *session) tellDropped(d *delivery, class onefold.Class, err error) {
	if s.obs.Dropped != nil {
		e := s.event(d)
		e.Class, e.Err = class, err
		s.obs.Dropped(e)
	}
}

// release ends d's stay in the registry and returns the copies that waited for it.
func (s *session) release(d *delivery) []*delivery {
	d.set(stageEnded)
	s.yield(d)
	s.passTurn(d)
	return s.reg.remove(d)
}

// nak has the message come again, no sooner than after delay.
func (s *session) nak(d *delivery, delay time.Duration) error {
	if delay <= 0 {
		return d.ack.Nak()
	}
	s.pull.goesAway(d.msg.Sequence, delay)
	return d.ack.NakWithDelay(delay)
}

// sent reports whether an answer is in the connection's buffer. If not, the message comes again and the
// store answers it: losing an answer costs a delivery and nothing else.
func (s *session) sent(d *delivery, err error) bool {
	if err == nil {
		return true
	}
	s.pullTrouble(err)
	s.tellDropped(d, onefold.ClassUnavailable, err)
	return false
}
