package outbox

import (
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
)

// outcome is a settlement and what the observer is told about it. Without a State nothing is recorded.
type outcome struct {
	settlement onefold.Settlement
	event      onefold.RowEvent
	called     bool // the row has a place among the calls, and none in the window of messages
}

// outcomeOf decides what becomes of a row. Besides the verdict it looks at the row's attempts.
func (s *session) outcomeOf(a answer) outcome {
	o := outcome{settlement: onefold.Settlement{Row: *a.row}, event: s.relay.rowEvent(a.row), called: a.call != nil}
	var v verdict
	switch {
	case a.call != nil:
		v, o.event.Class, o.event.Err = judgeCall(*a.call)
	case a.away > 0:
		o.delay(a.away, a.err)
		o.event.Class, o.event.Err, o.settlement.Uncounted = onefold.ClassUnavailable, a.err, true
		return o
	default:
		v, o.event.Class, o.event.Err = s.judgeAnswer(a)
	}
	s.settleAs(&o, v)
	if v == sent && a.ack != nil {
		o.event.Duplicate, o.event.Sequence = a.ack.Duplicate, a.ack.Sequence
	}
	if f := s.relay.config.Observer.Published; v == sent && f != nil {
		f(o.event)
	}
	return o
}

// judgeAnswer decides what came back for a message means.
func (s *session) judgeAnswer(a answer) (verdict, onefold.Class, error) {
	if isAny(a.err, errUnsupported) {
		return hopeless, onefold.ClassPermanent, a.err
	}
	if isAny(a.err, errSilent) {
		return waiting, onefold.ClassUnavailable, a.err
	}
	here := scene{connected: a.err == nil || s.conn.IsConnected()}
	if !a.verified {
		s.silences.learn(a.row.Effect.Target, timedOut(a.err))
	}
	if nobodyAnswered(a.err) || timedOut(a.err) {
		here.capture = s.captures.of(a.row.Effect.Target)
		if here.connected && here.capture == notCaptured {
			a.err = uncaptured(a.row.Effect.Target, a.err)
		}
	}
	v, class := judge(a.err, here)
	s.relay.verified.learn(a.row.Effect.ID, v, a.err)
	return v, class, a.err
}

// settleAs turns a verdict into a settlement.
func (s *session) settleAs(o *outcome, v verdict) {
	c := &s.relay.config
	row, err := &o.settlement.Row, o.event.Err
	switch {
	case v == untold:
	case v == sent:
		s.troubles.clear(troubledBy(&row.Effect))
		o.settlement.State = onefold.Sent
	case v == hopeless || v == doubtful:
		o.park(err.Error(), !c.SkipParked)
		o.settlement.Untried = o.called && v == hopeless
	case v == refused && row.Attempt >= c.MaxAttempts:
		o.park(fmt.Sprintf("given up after %d attempts: %v", row.Attempt, err), !c.SkipParked)
		o.settlement.Untried = o.called // a call that may have happened is doubtful
	case v == refused:
		d, chosen := onefold.RetryDelay(err)
		if !chosen {
			d = pace.Delay(row.Attempt, seedOf(row.Effect.ID), c.RetryMin, c.RetryMax)
		}
		o.delay(d, err)
	case isAny(err, errStopping):
		o.delay(0, err) // at once, for the next relay
		o.settlement.Uncounted = true
	default:
		o.delay(s.troubles.note(troubledBy(&row.Effect), c.Clock.Mono()), err)
		o.settlement.Uncounted = true
	}
}

// troubledBy is what trouble with e is remembered by. No subject has a blank in it.
func troubledBy(e *onefold.Effect) string {
	if e.Kind == onefold.KindCall {
		return "call " + e.Target
	}
	return e.Target
}

func (o *outcome) park(reason string, hold bool) {
	o.settlement.State, o.settlement.Reason, o.settlement.Hold = onefold.Parked, reason, hold
}

// delay gives the row back for d.
func (o *outcome) delay(d time.Duration, err error) {
	o.settlement.State, o.settlement.Reason = onefold.Delayed, err.Error()
	o.event.Delay = d
}

// appoint gives delayed rows their times, as of now. It is done again before each try to record them: were the wall
// clock set back in between, a row would stay away for as long as it was set back.
func appoint(batch []onefold.Settlement, outcomes []outcome, now time.Time) {
	for i := range batch {
		if d := outcomes[i].event.Delay; batch[i].State == onefold.Delayed && d > 0 {
			batch[i].At = now.Add(d)
		}
	}
}
