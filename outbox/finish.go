package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
)

// errUnsupported marks rows that this relay has no way to send.
var errUnsupported = errors.New("not sent by this relay")

// unsupported says why no try is made with e, or nil.
func unsupported(e *onefold.Effect) error {
	switch {
	case e.Kind != onefold.KindMessage:
		return fmt.Errorf("%w: kind %q; it sends %q", errUnsupported, e.Kind, onefold.KindMessage)
	case e.Conn != "":
		return fmt.Errorf("%w: connection %q; it has only its own", errUnsupported, e.Conn)
	}
	return nil
}

// outcome is a settlement and what the observer is told about it.
type outcome struct {
	settlement onefold.Settlement
	event      onefold.RowEvent
}

// finish judges answers and records what is owed in one step. If the store is too full to write delayed
// and parked rows, it records the sent ones, which makes room, keeps owing the others, and returns
// [onefold.ErrFull].
func (s *session) finish(ctx context.Context, answers []answer) error {
	if s.conn.IsConnected() {
		s.captures.learn(ctx, answers)
	}
	for _, a := range answers {
		s.owed = append(s.owed, s.outcomeOf(a))
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
	err := s.settle(ctx, batch)
	if errors.Is(err, onefold.ErrFull) {
		return err
	}
	s.window.give(len(batch))
	if err != nil {
		return err
	}
	s.settled += len(batch)
	for i := range outcomes {
		s.relay.report(&outcomes[i])
	}
	return nil
}

// outcomeOf decides what becomes of a row. Besides the verdict it looks at the row's attempts.
func (s *session) outcomeOf(a answer) outcome {
	c := &s.relay.config
	row := a.row
	o := outcome{settlement: onefold.Settlement{Row: *row}, event: s.relay.rowEvent(row)}
	here := scene{connected: a.err == nil || s.conn.IsConnected()}
	if nobodyAnswered(a.err) {
		here.capture = s.captures.of(row.Effect.Target)
		if here.connected && here.capture == notCaptured {
			a.err = uncaptured(row.Effect.Target, a.err)
		}
	}
	v, class := judge(a.err, here)
	if errors.Is(a.err, errUnsupported) {
		v, class = hopeless, onefold.ClassPermanent
	}
	o.event.Class, o.event.Err = class, a.err
	switch {
	case v == sent:
		s.troubles.clear(row.Effect.Target)
		o.settlement.State = onefold.Sent
		if a.ack != nil {
			o.event.Duplicate, o.event.Sequence = a.ack.Duplicate, a.ack.Sequence
		}
		if c.Observer.Published != nil {
			c.Observer.Published(o.event)
		}
	case v == hopeless:
		o.park(a.err.Error(), !c.SkipParked)
	case v == refused && row.Attempt >= c.MaxAttempts:
		o.park(fmt.Sprintf("given up after %d attempts: %v", row.Attempt, a.err), !c.SkipParked)
	case v == refused:
		o.delay(pace.Delay(row.Attempt, seedOf(row.Effect.ID), c.RetryMin, c.RetryMax), c.Clock.Wall(), a.err)
	default:
		o.delay(s.troubles.note(row.Effect.Target, c.Clock.Mono()), c.Clock.Wall(), a.err)
		o.settlement.Uncounted = true
	}
	return o
}

func (o *outcome) park(reason string, hold bool) {
	o.settlement.State, o.settlement.Reason, o.settlement.Hold = onefold.Parked, reason, hold
}

func (o *outcome) delay(d time.Duration, now time.Time, err error) {
	o.settlement.State, o.settlement.Reason, o.settlement.At = onefold.Delayed, err.Error(), now.Add(d)
	o.event.Delay = d
}

// settle records a batch and repeats while the store cannot be reached or has not said if it did. When ctx
// ends first the rows stay as they are: they come again, under the same IDs.
func (s *session) settle(ctx context.Context, batch []onefold.Settlement) error {
	err := backoff.RetryNotify(func() error {
		err := s.relay.store.Settle(ctx, batch)
		if err == nil || isAny(err, onefold.ErrUnknown, onefold.ErrUnavailable) {
			return err
		}
		return backoff.Permanent(err)
	}, backoff.WithContext(pace.Store(), ctx), func(err error, _ time.Duration) { s.relay.status.hindered(noSettle, err) })
	if err != nil {
		return fmt.Errorf("settle %d rows: %w", len(batch), err)
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
	return onefold.RowEvent{
		At: r.config.Clock.Wall(), Key: row.Key, ID: row.Effect.ID, Kind: row.Effect.Kind,
		Target: row.Effect.Target, Attempt: row.Attempt,
	}
}
