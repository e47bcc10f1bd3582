package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/onefold-go/onefold"
)

// errUnsupported marks rows that this relay has no way to send.
var errUnsupported = errors.New("not sent by this relay")

// unsupported says why no try is made with e, or nil.
func unsupported(e *onefold.Effect) error {
	switch {
	case e.Kind != onefold.KindMessage && e.Kind != onefold.KindCall:
		return fmt.Errorf("%w: kind %q; it carries out %q and %q", errUnsupported, e.Kind, onefold.KindMessage, onefold.KindCall)
	case e.Conn != "":
		return fmt.Errorf("%w: connection %q; it has only its own", errUnsupported, e.Conn)
	}
	return nil
}

// finish judges answers and records what is owed in one step. If the store is too full to write delayed
// and parked rows, it records the sent ones, which makes room, keeps owing the others, and returns
// [onefold.ErrFull].
func (s *session) finish(ctx context.Context, answers []answer) error {
	if s.conn.IsConnected() {
		s.captures.learn(ctx, answers)
	}
	for _, a := range answers {
		s.arrived(a.ack)
		if s.relay.verified.doubts(a) {
			s.verifier.asked <- a
			continue
		}
		o := s.outcomeOf(a)
		if o.settlement.State == 0 {
			s.calls.free(1)
			continue
		}
		s.owed = append(s.owed, o)
	}
	err := s.record(ctx, s.owed)
	if !errors.Is(err, onefold.ErrFull) {
		s.owed = s.owed[:0]
		if err == nil {
			s.relay.status.freed(noSettle)
		}
		return err
	}
	s.relay.status.hindered(noSettle, err)
	var ended, kept []outcome
	for _, o := range s.owed {
		if o.settlement.State == onefold.Sent {
			ended = append(ended, o)
		} else {
			kept = append(kept, o)
		}
	}
	endErr := s.record(ctx, ended)
	if errors.Is(endErr, onefold.ErrFull) {
		return endErr // no store should say that of sent rows; if one does, everything is still owed
	}
	s.owed = kept
	if endErr != nil {
		return endErr
	}
	return err
}

// record settles outcomes, gives their places in the window back and tells the observer. After
// [onefold.ErrFull] nothing has happened.
func (s *session) record(ctx context.Context, outcomes []outcome) error {
	if len(outcomes) == 0 {
		return nil
	}
	batch := make([]onefold.Settlement, len(outcomes))
	for i := range outcomes {
		batch[i] = outcomes[i].settlement
	}
	appoint(batch, outcomes, s.relay.config.Clock.Wall())
	err := settleUntilKnown(ctx, s.relay.store, batch, func(err error) {
		s.relay.status.unsettled(err)
		appoint(batch, outcomes, s.relay.config.Clock.Wall())
	})
	if errors.Is(err, onefold.ErrFull) {
		return err
	}
	called := 0
	for i := range outcomes {
		if outcomes[i].called {
			called++
		}
	}
	s.calls.free(called)
	s.window.give(len(batch) - called)
	if err != nil {
		return err
	}
	s.settled += len(batch)
	for i := range outcomes {
		s.relay.report(&outcomes[i])
	}
	return nil
}

// report tells the observer of a durable outcome.
func (r *Relay) report(o *outcome) {
	f := r.config.Observer.Settled
	switch o.settlement.State {
	case onefold.Delayed:
		f = r.config.Observer.RowDelayed
	case onefold.Parked:
		f = r.config.Observer.RowParked
	}
	if f != nil {
		o.event.At = r.config.Clock.Wall()
		f(o.event)
	}
}

// rowEvent is what every event about row says.
func (r *Relay) rowEvent(row *onefold.Row) onefold.RowEvent {
	e := eventOf(row)
	e.At = r.config.Clock.Wall()
	return e
}

func eventOf(row *onefold.Row) onefold.RowEvent {
	return onefold.RowEvent{
		Key: row.Key, ID: row.Effect.ID, Kind: row.Effect.Kind, Target: row.Effect.Target, Attempt: row.Attempt,
	}
}
