package consumer

import (
	"errors"
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/internal/pace"
)

// action is what follows from how a stage ended.
type action uint8

const (
	actCommit     action = iota + 1 // commit the entry with the handler's effects
	actRetry                        // release the claim, bring the message again after a delay
	actDeadLetter                   // commit a dead letter in its place
	actRerun                        // run the handler again on the same claim
	actRepeat                       // commit the same entry again
	actFinish                       // the outcome is durable: ack
	actAbandon                      // not ours any more: answer nothing
	actFail                         // the store cannot go on: stop the consumer
	actPark                         // commit that nobody knows what the run has done
)

// verdict is a decision together with what it needs.
type verdict struct {
	do      action
	class   onefold.Class
	delay   time.Duration // actRetry
	counted bool          // actRetry: uses up an attempt
	reason  string        // actRetry, actDeadLetter
}

// runState is what a verdict on a run depends on.
type runState struct {
	attempt  int    // of this run, from 1
	seed     uint64 // of the jitter
	reruns   int    // of this run, because of conflicts
	stopping bool   // the consumer has cancelled its handlers
	timedOut bool   // its context was cancelled because it took too long
	lost     bool   // the claim has ended
}

// retryRule is the part of Config that verdicts depend on.
type retryRule struct {
	maxAttempts int
	min, max    time.Duration
	timeout     time.Duration // for the reason
}

// afterRun decides what follows from the handler's error.
func afterRun(err error, s runState, r retryRule) verdict {
	switch {
	case s.lost:
		return verdict{do: actAbandon, class: onefold.ClassLost}
	case err == nil:
		return verdict{do: actCommit}
	case s.timedOut && !onefold.IsPermanent(err):
		err = fmt.Errorf("%w (%v): %w", ErrHandlerTimeout, r.timeout, err)
		return afterFailure(err, onefold.ClassTimeout, s, r)
	case s.stopping && !onefold.IsPermanent(err):
		// Whatever the handler makes of its cancelled context is not the message's fault.
		return verdict{do: actRetry, class: onefold.ClassHandler, reason: "consumer stopped during the run"}
	}
	class := classOf(err)
	switch {
	case class == onefold.ClassPermanent:
		return verdict{do: actDeadLetter, class: class, reason: err.Error()}
	case class == onefold.ClassConflict && s.reruns < maxConflicts:
		return verdict{do: actRerun, class: class}
	}
	// A conflict that the handler itself goes on to report is its failure like any other.
	return afterFailure(err, class, s, r)
}

// afterFailure decides between another attempt and giving up.
func afterFailure(err error, class onefold.Class, s runState, r retryRule) verdict {
	if s.attempt >= r.maxAttempts {
		return verdict{do: actDeadLetter, class: class, reason: fmt.Sprintf("attempt %d of %d: %v", s.attempt, r.maxAttempts, err)}
	}
	delay, chosen := onefold.RetryDelay(err)
	if !chosen {
		delay = pace.Delay(s.attempt, s.seed, r.min, r.max)
	}
	return verdict{do: actRetry, class: class, delay: delay, counted: true, reason: err.Error()}
}

// classOf sorts an error of a handler run.
func classOf(err error) onefold.Class {
	var panicked *onefold.PanicError
	switch {
	case errors.As(err, &panicked), errors.Is(err, onefold.ErrGoexit):
		return onefold.ClassPanic
	case onefold.IsPermanent(err):
		return onefold.ClassPermanent
	case errors.Is(err, onefold.ErrConflict):
		return onefold.ClassConflict
	}
	return onefold.ClassHandler
}

// afterCommit decides what follows from the outcome of a commit. gaveUp says that the entry was a dead
// letter: there is nothing left to put in its place.
func afterCommit(err error, gaveUp bool, s runState, r retryRule) verdict {
	switch {
	case err == nil:
		return verdict{do: actFinish}
	case errors.Is(err, onefold.ErrUnknown):
		return verdict{do: actRepeat, class: onefold.ClassUnknown}
	case errors.Is(err, onefold.ErrDamaged), errors.Is(err, onefold.ErrClosed):
		return verdict{do: actFail, class: onefold.ClassUnavailable}
	case errors.Is(err, onefold.ErrBusy):
		return verdict{do: actRetry, class: onefold.ClassConflict, delay: r.min, reason: err.Error()}
	case errors.Is(err, onefold.ErrLost), errors.Is(err, onefold.ErrMismatch):
		return verdict{do: actAbandon, class: onefold.ClassLost}
	case errors.Is(err, onefold.ErrConflict):
		return verdict{do: actRerun, class: onefold.ClassConflict}
	case errors.Is(err, onefold.ErrRejected):
		return afterFailure(err, onefold.ClassHandler, s, r)
	case !refused(err):
		// Unavailable, full, an ended context, or an error that the contract does not name: nothing says that
		// the entry cannot be stored, so it is tried until something does.
		return verdict{do: actRepeat, class: onefold.ClassUnavailable}
	case gaveUp:
		return verdict{do: actRetry, class: onefold.ClassPermanent, delay: r.max, reason: "dead letter refused by the store: " + err.Error()}
	}
	return verdict{do: actDeadLetter, class: onefold.ClassPermanent, reason: err.Error()}
}

// refused reports whether the store will never take such an entry.
func refused(err error) bool {
	return errors.Is(err, onefold.ErrTooLarge) || errors.Is(err, onefold.ErrUnsupported) || errors.Is(err, onefold.ErrInvalid)
}

// rejection says why a message cannot run at all.
type rejection struct {
	class  onefold.Class
	reason string
	cause  error // for the observer: it may say more than the reason
}

// rejectID is the rejection of a message whose ID or fingerprint could not be found.
func rejectID(err error) *rejection {
	r := &rejection{class: onefold.ClassMissingID, reason: dedupe.ErrMissingID.Error(), cause: err}
	var panicked *onefold.PanicError
	switch {
	case errors.As(err, &panicked):
		r.class, r.reason = onefold.ClassPanic, "identifying the message: "+err.Error()
	case errors.Is(err, errRedriveHeader):
		r.class, r.reason = onefold.ClassPermanent, err.Error()
	case !errors.Is(err, dedupe.ErrMissingID):
		r.reason += ": " + err.Error()
	}
	return r
}

// rejectMismatch is the rejection of a message whose ID holds another payload.
func rejectMismatch(stored, given onefold.Fingerprint) *rejection {
	cause := fmt.Errorf("id reused with different payload: stored %v, given %v", stored, given)
	return &rejection{class: onefold.ClassMismatch, reason: cause.Error(), cause: cause}
}

// rejectRefused is the rejection of a message that the store will never take.
func rejectRefused(err error) *rejection {
	return &rejection{class: onefold.ClassPermanent, reason: err.Error(), cause: err}
}
