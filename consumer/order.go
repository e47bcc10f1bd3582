package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
)

// This file connects the lanes with the rest of a session. lanes.go has the rule.

// order finds the lane of a message. A panic in Config.OrderBy rejects the message.
func (s *session) order(d *delivery) {
	key, err := s.orderKey(&d.msg)
	if err != nil && d.reject == nil {
		d.reject = &rejection{class: onefold.ClassPanic, reason: "ordering the message: " + err.Error(), cause: err}
	}
	d.order, d.rank = laneName(key), d.msg.Sequence
}

func (s *session) orderKey(m *onefold.Message) (key string, err error) {
	defer recoverAs(&err)
	return s.cfg.OrderBy(m), nil
}

// waitsForTurn is called for a delivery that has to wait. It takes nobody's place in the prefetch meanwhile.
func (s *session) waitsForTurn(d *delivery) { s.pull.wait(d) }

// hasTurn queues a delivery that has waited. The server is told, because its patience may have run since the
// heartbeat has looked last; what it may have handed to somebody else already is for the worker to drop.
func (s *session) hasTurn(d *delivery) {
	if now := s.clock.Mono(); now-d.since() >= s.beat.tick() && !stale(now, d.since(), s.beat) && d.ack.InProgress() == nil {
		d.heard.Store(int64(now))
	}
	s.pull.proceed(d)
	// If no worker is left, the delivery stays unanswered and comes again after AckWait.
	_ = s.work.push(d)
}

// hold keeps the lane of d closed while it is away for delay, and returns for how long it may be. A process that
// has crashed waits for an AckWait when it starts again, and in this time everything comes that stays away for no
// longer. What stays away longer is stored; if it cannot be, it stays away for an AckWait.
func (s *session) hold(d *delivery, delay time.Duration) time.Duration {
	if d.delay = delay; delay > s.beat.ackWait && !d.saved {
		m := missed{place: placeOf(&d.msg), key: d.key}
		if err := s.saveMissed(s.ops, map[string][]missed{d.order: {m}}); err != nil {
			d.delay = s.beat.ackWait
		} else {
			d.saved = true
		}
	}
	return d.delay
}

// openOrder makes the lanes and takes up what an earlier session has left. If deliveries may be under way of which
// nothing is known it stops pulling for an AckWait; see watchLanes.
func (s *session) openOrder(ctx context.Context) error {
	if s.cfg.OrderBy == nil {
		return nil
	}
	found := s.consumer.CachedInfo()
	limit := waitLimit(found.Config.MaxAckPending)
	s.pull.fetch.waitLimit, s.pull.single = limit, true
	s.reg.lanes = newLanes(limit, s.beat, s.clock.Mono, s.waitsForTurn, s.hasTurn)
	clean, err := s.loadMissed(ctx)
	if err != nil {
		return err
	}
	// Where several processes share a store others always have deliveries under way, in an order of their own.
	if !clean && s.st.Info().OneProcess && found.NumAckPending > 0 {
		s.stopFor(whyOrder, true, nil)
		s.reg.lanes.gather = &gather{upTo: found.Delivered.Stream, left: found.NumAckPending}
	}
	return nil
}

// watchLanes looks for missed messages that never come again, until ctx ends: another process has settled them,
// or the stream has lost them. It also takes what is no longer missed out of the store.
//
// After a crash it first waits for an AckWait: what was handed out before is due again then, and the server hands
// out what is due before what is new. Another AckWait is the most that is waited until all of it has arrived.
func (s *session) watchLanes(ctx context.Context) {
	if s.stops.has(whyOrder) {
		pace.Sleep(ctx, s.beat.ackWait+s.beat.tick())
		s.stopFor(whyOrder, false, nil)
	}
	gathered := s.clock.Mono() + s.beat.ackWait
	ticker := time.NewTicker(max(s.beat.ackWait/4, s.beat.tick()))
	defer ticker.Stop()
	for {
		if s.clock.Mono() >= gathered {
			s.reg.endGathering()
		}
		s.lookForMissed(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// maxLooks bounds how many missed messages are looked for at once.
const maxLooks = 64

// lookForMissed decides on messages that are overdue.
func (s *session) lookForMissed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	overdue := s.reg.overdue(s.clock.Mono(), maxLooks)
	if len(overdue) > 0 {
		info, err := s.consumer.Info(ctx)
		if err != nil {
			return
		}
		stream, err := s.js.Stream(ctx, s.cfg.Stream)
		if err != nil {
			return
		}
		for _, o := range overdue {
			s.reg.looked(o, s.gone(ctx, o.missed, info.AckFloor.Stream, stream))
		}
	}
	s.dropRows(ctx)
}

// lookTimeout bounds one look at the server for missed messages.
const lookTimeout = 5 * time.Second

// gone reports whether a message will not come again unsettled. Doubt means no.
func (s *session) gone(ctx context.Context, m missed, ackFloor uint64, stream jetstream.Stream) bool {
	if m.sequence <= ackFloor {
		return true
	}
	if _, err := s.st.Lookup(ctx, m.key); err == nil {
		return true
	}
	raw, err := stream.GetMsg(ctx, m.sequence)
	if err != nil {
		return errors.Is(err, jetstream.ErrMsgNotFound)
	}
	return raw.Time.UnixNano() != m.stored
}
