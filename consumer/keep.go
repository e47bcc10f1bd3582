package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/onefold-go/onefold"
)

// keepAlive is the heartbeat: one ticker for all deliveries, because a timer for each costs more than
// handling a small message. It ends with ctx.
func (s *session) keepAlive(ctx context.Context) {
	ticker := time.NewTicker(min(s.beat.tick(), s.overrun.tick()))
	defer ticker.Stop()
	var all []held
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		all = s.reg.snapshot(all[:0])
		gaveBack := 0
		for _, h := range all {
			if s.keep(h) {
				gaveBack++
			}
		}
		s.endOverruns(all)
		// The server is told first: a store that does not answer must not cost us the messages.
		s.renewAll(all)
		clear(all)
		s.pull.sweep()
		if gaveBack > 0 {
			s.pull.shrink()
		}
	}
}

// keep does what is owed to one delivery now and reports whether it was given back.
func (s *session) keep(h held) bool {
	d, at, now := h.delivery, h.at(), s.clock.Mono()
	owed := dutyOf(at, now, d.since(), d.progressed, d.renewed, s.beat)
	if owed.giveBack {
		if !d.move(at, stageEnded) {
			return false // a worker has taken it meanwhile
		}
		s.giveBackAll(append(s.reg.remove(d), d), giveBackDelay(s.beat.ackWait))
		return true
	}
	if owed.progress && d.at() != stageEnded {
		// Lost signals are made up for by the next one: the server's patience is three of them.
		_ = d.ack.InProgress()
		d.progressed = now
		if at == stageWaiting {
			d.heard.Store(int64(now))
		}
	}
	for _, f := range h.followers {
		if f.at() != stageEnded && now-max(f.received, f.progressed) >= s.beat.ackWait/3 {
			_ = f.ack.InProgress()
			f.progressed = now
		}
	}
	return false
}

// renewAll extends the claims that are due. All calls share the time until the next look.
func (s *session) renewAll(all []held) {
	ctx, cancel := context.WithTimeout(s.ops, s.beat.tick())
	defer cancel()
	for _, h := range all {
		at, now := h.at(), s.clock.Mono()
		if dutyOf(at, now, h.received, h.progressed, h.renewed, s.beat).renew && h.claim != nil {
			if s.renew(ctx, h.delivery) {
				h.renewed = now
			}
		}
	}
}

// renew extends the claim. If it is lost while the handler runs, the handler is told to stop, whatever it
// still returns is refused, and the message may run elsewhere from now on.
func (s *session) renew(ctx context.Context, d *delivery) bool {
	err := s.st.Renew(ctx, d.claim, s.cfg.Lease)
	if errors.Is(err, onefold.ErrLost) && (d.move(stageRunning, stageDeposed) || d.move(stageStopping, stageDeposed)) {
		d.cancel(err)
		s.deposed = append(s.deposed, deposed{d, s.clock.Mono()})
		s.yield(d)
		s.passTurn(d)
		followers := s.reg.remove(d)
		s.tellLost(d, err)
		s.pull.end(d)
		s.giveBackAll(followers, giveBackDelay(s.beat.ackWait))
	}
	return err == nil
}

// floorInterval is how often the floor is moved.
const floorInterval = time.Second

// watchFloor follows the server's ack floor until ctx ends and keeps ours in the store. It also notices
// a consumer that has vanished while no pull was open; while the consumer is stopped for a reason none is.
func (s *session) watchFloor(ctx context.Context) {
	ticker := time.NewTicker(floorInterval)
	defer ticker.Stop()
	var samples []sample
	for {
		select {
		case <-ctx.Done():
			if s.js.Conn().IsConnected() {
				s.moveFloor(context.WithoutCancel(ctx), keepSamples(samples, s.reg.highest(), *s.floor.Load()))
			}
			return
		case <-ticker.C:
		}
		samples = keepSamples(samples, s.reg.highest(), *s.floor.Load())
		if len(samples) > 0 || s.errors.Load() > 0 || s.stops.set.Load() != 0 {
			s.moveFloor(ctx, samples)
		}
	}
}

// moveFloor asks for the server's ack floor and stores ours if it has moved.
func (s *session) moveFloor(ctx context.Context, samples []sample) {
	ctx, cancel := context.WithTimeout(ctx, floorTimeout)
	defer cancel()
	info, err := s.consumer.Info(ctx)
	if err != nil {
		if fatalPullError(err) {
			s.fail(err)
		}
		return
	}
	if err := s.stillOurs(info); err != nil {
		s.fail(err)
		return
	}
	s.errors.Store(0)
	// If it cannot be stored now, the next move is as good.
	_ = s.raiseFloor(ctx, info.AckFloor.Stream, samples)
}

// raiseFloor stores the floor if the server's has reached another sample.
func (s *session) raiseFloor(ctx context.Context, ackFloor uint64, samples []sample) error {
	old := *s.floor.Load()
	moved := old.advance(ackFloor, samples)
	if moved.At == old.At && moved.Seen == old.Seen {
		return nil
	}
	// Only a stored floor is used: one that is forgotten in a crash must not have answered anything.
	if err := s.storeFloor(ctx, moved); err != nil {
		return err
	}
	s.floor.Store(&moved)
	if moved.At.Sequence >= s.suspects.Until {
		s.wary.Store(false)
	}
	return nil
}

// floorTimeout bounds one move of the floor.
const floorTimeout = 2 * time.Second

func (s *session) storeFloor(ctx context.Context, f floor) error {
	c := onefold.Commit{Entry: onefold.Entry{Writes: []onefold.Write{{Table: floorTable, Key: s.cfg.Scope, Value: f.encode()}}}}
	if err := s.st.Commit(ctx, []*onefold.Commit{&c}); err != nil {
		return err
	}
	return c.Err
}

func (s *session) loadFloor(ctx context.Context) (floor, error) {
	v, err := s.st.Read(ctx, floorTable, s.cfg.Scope)
	if err != nil {
		return floor{}, err
	}
	return decodeFloor(v.Data)
}
