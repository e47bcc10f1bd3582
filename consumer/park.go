package consumer

import (
	"context"
	"errors"

	"github.com/onefold-go/onefold"
)

// This file decides what Config.ParkUnknown changes: a message whose run ended without its handler saying how is
// not run again.

// reasonCutShort is why a message is parked that an earlier run has left without an outcome.
const reasonCutShort = "outcome unknown: an earlier run was cut short"

// parkRun turns the verdict on a run whose outcome nobody knows into parking it. What the handler says itself
// stands: an error is a failure, unless its context was cancelled, or one that it made of it for what it called, in
// which case only onefold.RetryAfter and onefold.Permanent say that it knows.
func parkRun(v verdict, err error, s runState) verdict {
	if v.do != actRetry && v.do != actRerun && v.do != actDeadLetter || onefold.IsPermanent(err) && v.class != onefold.ClassPanic {
		return v
	}
	_, knows := onefold.RetryDelay(err)
	cancelled := s.stopping || s.timedOut || errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if v.class == onefold.ClassPanic || errors.Is(err, onefold.ErrUnknown) || cancelled && !knows {
		reason := err.Error()
		if s.timedOut {
			reason = v.reason // which says so
		}
		return verdict{do: actPark, class: onefold.ClassUnknown, reason: "outcome unknown: " + reason}
	}
	return v
}

// parkCommit does the same for the verdict on a commit. The handler has done its work, and another run would do it
// again.
func parkCommit(v verdict, err error, o onefold.Outcome) verdict {
	again := v.do == actRetry || v.do == actRerun
	switch {
	case again && o == onefold.Succeeded:
		return verdict{do: actPark, class: onefold.ClassUnknown, reason: "outcome unknown: the handler succeeded and its effects were refused: " + err.Error()}
	case again && o == onefold.ParkedUnknown:
		return verdict{do: actAbandon, class: v.class} // the start stays counted: it is parked when it comes again
	}
	return v
}
