package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/onefold-go/onefold"
)

// reached is how far a row of a call has come.
type reached uint8

const (
	notStarted reached = iota // it has waited for its turn, or its announcement is not durable
	askedOnly                 // its probe was asked about an earlier call
	called                    // Do was called
)

// callEnd is how a try of a row of a call went. It is what judgeCall decides by.
type callEnd struct {
	reached reached
	once    bool
	stopped bool  // the relay has ended the contexts of Do and Probe
	err     error // of Do, or why it was not started

	asked    bool // the probe has been asked, after Do if that was called
	answer   ProbeResult
	probeErr error // why it has not answered
}

// errNoProbe explains a call that nobody can tell about.
var errNoProbe = errors.New("the function has no Probe")

// judgeCall decides what a try means for its row, and with which error.
func judgeCall(e callEnd) (verdict, onefold.Class, error) {
	switch {
	case e.reached == notStarted:
		return waiting, onefold.ClassUnavailable, e.err
	case e.reached == askedOnly:
		return judgeProbe(e, errors.New("an earlier call was cut short"))
	case e.err == nil:
		return sent, onefold.ClassNone, nil
	case e.stopped && !e.once:
		return waiting, onefold.ClassUnavailable, fmt.Errorf("stopped with the relay: %w", e.err)
	case !mayHaveHappened(e.err, e.once):
		return judgeRefusal(e.err)
	case e.once:
		return judgeProbe(e, e.err)
	}
	return refused, classOfCall(e.err), e.err
}

// judgeRefusal decides about a call of which the function says that it had no effect.
func judgeRefusal(err error) (verdict, onefold.Class, error) {
	_, asksAgain := onefold.RetryDelay(err)
	switch {
	case onefold.IsPermanent(err):
		return hopeless, onefold.ClassPermanent, err
	case asksAgain:
		return refused, onefold.ClassRefused, err
	}
	return waiting, onefold.ClassUnavailable, err
}

// judgeProbe decides about a call that may have happened. cause is why that is not known.
func judgeProbe(e callEnd, cause error) (verdict, onefold.Class, error) {
	switch {
	case e.stopped:
		return untold, onefold.ClassUnknown, cause
	case !e.asked:
		return doubtful, onefold.ClassUnknown, fmt.Errorf("it is called at most once and may have happened (%w): %w", errNoProbe, cause)
	case e.probeErr != nil:
		return doubtful, onefold.ClassUnknown, fmt.Errorf("it is called at most once and may have happened (no answer of Probe: %w): %w", e.probeErr, cause)
	case e.answer == ProbeHappened:
		return sent, onefold.ClassNone, nil
	case e.answer == ProbeNotHappened:
		return refused, classOfCall(cause), cause
	}
	return doubtful, onefold.ClassUnknown, fmt.Errorf("it is called at most once and may have happened (Probe does not know): %w", cause)
}

// mayHaveHappened reports whether err leaves open that the call had an effect. A panic does, whatever its value is. So
// does ErrUnavailable in a call that must not be made twice: it may come from a store that the function has used after
// it did its work, and only marks that the function has set itself are believed then.
func mayHaveHappened(err error, once bool) bool {
	_, asksAgain := onefold.RetryDelay(err)
	return classOfCall(err) == onefold.ClassPanic ||
		!asksAgain && !onefold.IsPermanent(err) && (once || !errors.Is(err, onefold.ErrUnavailable))
}

// classOfCall sorts a refused attempt.
func classOfCall(err error) onefold.Class {
	var panicked *onefold.PanicError
	switch {
	case errors.As(err, &panicked), errors.Is(err, onefold.ErrGoexit):
		return onefold.ClassPanic
	case errors.Is(err, context.DeadlineExceeded):
		return onefold.ClassUnknown
	}
	return onefold.ClassRefused
}
