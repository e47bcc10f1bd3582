package consumer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/internal/pace"
)

var (
	errPlain  = errors.New("plain")
	ruleTen   = retryRule{maxAttempts: 10, min: 100 * time.Millisecond, max: time.Minute}
	firstRun  = runState{attempt: 1, seed: 7}
	lastRun   = runState{attempt: 10, seed: 7}
	afterOver = runState{attempt: 11, seed: 7}
)

func TestWhatFollowsFromARun(t *testing.T) {
	stopping, lost, stuck := firstRun, firstRun, firstRun
	stopping.stopping, lost.lost, stuck.reruns = true, true, maxConflicts
	for name, c := range map[string]struct {
		err   error
		state runState
		want  verdict
	}{
		"success is committed":                      {nil, firstRun, verdict{do: actCommit}},
		"success while stopping is committed":       {nil, stopping, verdict{do: actCommit}},
		"a lost run is abandoned whatever it says":  {nil, lost, verdict{do: actAbandon, class: onefold.ClassLost}},
		"a lost run that failed too":                {errPlain, lost, verdict{do: actAbandon, class: onefold.ClassLost}},
		"a conflict runs again":                     {fmt.Errorf("get: %w", onefold.ErrConflict), firstRun, verdict{do: actRerun, class: onefold.ClassConflict}},
		"a conflict in the last attempt runs again": {onefold.ErrConflict, lastRun, verdict{do: actRerun, class: onefold.ClassConflict}},
		"a permanent conflict gives up":             {onefold.Permanent(onefold.ErrConflict), firstRun, verdict{do: actDeadLetter, class: onefold.ClassPermanent, reason: onefold.ErrConflict.Error()}},
		"a conflict without end is a failure": {onefold.RetryAfter(time.Hour, onefold.ErrConflict), stuck,
			verdict{do: actRetry, class: onefold.ClassConflict, counted: true, delay: time.Hour, reason: onefold.ErrConflict.Error()}},
		"a permanent error gives up":                 {onefold.Permanent(errPlain), firstRun, verdict{do: actDeadLetter, class: onefold.ClassPermanent, reason: "plain"}},
		"a permanent error while stopping gives up":  {onefold.Permanent(errPlain), stopping, verdict{do: actDeadLetter, class: onefold.ClassPermanent, reason: "plain"}},
		"a failure while stopping is not counted":    {errPlain, stopping, verdict{do: actRetry, class: onefold.ClassHandler, reason: "consumer stopped during the run"}},
		"a chosen delay is taken":                    {onefold.RetryAfter(time.Hour, errPlain), firstRun, verdict{do: actRetry, class: onefold.ClassHandler, counted: true, delay: time.Hour, reason: "plain"}},
		"a chosen delay of none is taken":            {onefold.RetryAfter(0, errPlain), firstRun, verdict{do: actRetry, class: onefold.ClassHandler, counted: true, reason: "plain"}},
		"a chosen delay does not stretch the budget": {onefold.RetryAfter(time.Hour, errPlain), lastRun, verdict{do: actDeadLetter, class: onefold.ClassHandler, reason: "attempt 10 of 10: plain"}},
		"the last attempt gives up":                  {errPlain, lastRun, verdict{do: actDeadLetter, class: onefold.ClassHandler, reason: "attempt 10 of 10: plain"}},
		"more attempts than allowed give up":         {errPlain, afterOver, verdict{do: actDeadLetter, class: onefold.ClassHandler, reason: "attempt 11 of 10: plain"}},
		"a panic with a permanent error is a panic": {&onefold.PanicError{Value: onefold.Permanent(errPlain)}, lastRun,
			verdict{do: actDeadLetter, class: onefold.ClassPanic, reason: "attempt 10 of 10: handler panicked: plain"}},
		"goexit is a panic": {onefold.ErrGoexit, lastRun, verdict{do: actDeadLetter, class: onefold.ClassPanic, reason: "attempt 10 of 10: handler called runtime.Goexit"}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, afterRun(c.err, c.state, ruleTen)) })
	}
	plain := afterRun(errPlain, firstRun, ruleTen)
	assert.Equal(t, verdict{do: actRetry, class: onefold.ClassHandler, counted: true, delay: pace.Delay(1, 7, ruleTen.min, ruleTen.max), reason: "plain"}, plain)
}

func TestWhatFollowsFromACommit(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		gaveUp bool
		want   action
	}{
		"stored":                              {nil, false, actFinish},
		"unknown":                             {onefold.ErrUnknown, false, actRepeat},
		"unknown because cancelled":           {errors.Join(context.Canceled, onefold.ErrUnknown), false, actRepeat},
		"cancelled":                           {context.Canceled, false, actRepeat},
		"too slow":                            {context.DeadlineExceeded, true, actRepeat},
		"unavailable":                         {onefold.ErrUnavailable, false, actRepeat},
		"full":                                {onefold.ErrFull, true, actRepeat},
		"an error the contract does not name": {errPlain, false, actRepeat},
		"damaged":                             {onefold.ErrDamaged, false, actFail},
		"closed":                              {fmt.Errorf("x: %w", onefold.ErrClosed), true, actFail},
		"lost":                                {onefold.ErrLost, false, actAbandon},
		"stored by another payload":           {onefold.ErrMismatch, true, actAbandon},
		"held by another":                     {onefold.ErrBusy, true, actRetry},
		"moved":                               {onefold.ErrConflict, false, actRerun},
		"joined write failed":                 {onefold.ErrRejected, false, actRetry},
		"too large":                           {onefold.ErrTooLarge, false, actDeadLetter},
		"unsupported":                         {onefold.ErrUnsupported, false, actDeadLetter},
		"invalid":                             {onefold.ErrInvalid, false, actDeadLetter},
		"dead letter too large":               {onefold.ErrTooLarge, true, actRetry},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, afterCommit(c.err, c.gaveUp, firstRun, ruleTen).do) })
	}
	assert.Equal(t, actDeadLetter, afterCommit(onefold.ErrRejected, false, lastRun, ruleTen).do)
	assert.True(t, afterCommit(onefold.ErrRejected, false, firstRun, ruleTen).counted)
	assert.False(t, afterCommit(onefold.ErrTooLarge, true, firstRun, ruleTen).counted)
}

func TestARejectionNamesItsCause(t *testing.T) {
	missing := fmt.Errorf("header: %w", dedupe.ErrMissingID)
	assert.Equal(t, &rejection{onefold.ClassMissingID, "missing id", missing}, rejectID(missing))
	assert.Equal(t, &rejection{onefold.ClassMissingID, "missing id: plain", errPlain}, rejectID(errPlain))
	panicked := &onefold.PanicError{Value: "no such field"}
	assert.Equal(t, &rejection{onefold.ClassPanic, "identifying the message: handler panicked: no such field", panicked}, rejectID(panicked))
	a, b := onefold.Fingerprint{Version: 1, Sum: [16]byte{1}}, onefold.Fingerprint{Version: 1, Sum: [16]byte{2}}
	r := rejectMismatch(a, b)
	assert.Equal(t, onefold.ClassMismatch, r.class)
	assert.Contains(t, r.reason, "id reused with different payload")
	assert.Contains(t, r.reason, a.String())
	assert.Contains(t, r.reason, b.String())
}
