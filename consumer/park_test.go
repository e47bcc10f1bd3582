package consumer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
)

func TestARunWhoseOutcomeNobodyKnowsIsParked(t *testing.T) {
	stopping, late, lost := firstRun, firstRun, firstRun
	stopping.stopping, late.timedOut, lost.lost = true, true, true
	unknown := fmt.Errorf("pay: %w", onefold.ErrUnknown)
	for name, c := range map[string]struct {
		err   error
		state runState
		want  action
	}{
		"success":                          {nil, firstRun, actCommit},
		"success in spite of the timeout":  {nil, late, actCommit},
		"an error is a failure":            {errPlain, firstRun, actRetry},
		"the last one gives up":            {errPlain, lastRun, actDeadLetter},
		"a conflict of its own runs again": {onefold.ErrConflict, firstRun, actRerun},
		"a permanent error gives up":       {onefold.Permanent(errPlain), late, actDeadLetter},
		"an error says that nobody knows":  {unknown, firstRun, actPark},
		"also in the last attempt":         {unknown, lastRun, actPark},
		"also if it asks for a retry":      {onefold.RetryAfter(time.Second, unknown), firstRun, actPark},
		"a panic":                          {&onefold.PanicError{Value: 1}, firstRun, actPark},
		"a panic with a permanent error":   {&onefold.PanicError{Value: onefold.Permanent(errPlain)}, firstRun, actPark},
		"a goexit":                         {onefold.ErrGoexit, lastRun, actPark},
		"cancelled by its timeout":         {errPlain, late, actPark},
		"cancelled by the end":             {errPlain, stopping, actPark},
		"its own deadline for a call":      {fmt.Errorf("pay: %w", context.DeadlineExceeded), firstRun, actPark},
		"the timeout of a middleware":      {fmt.Errorf("%w: %w", ErrTimeout, errPlain), firstRun, actPark},
		"cancelled, and it knows":          {onefold.RetryAfter(time.Second, errPlain), late, actRetry},
		"lost is answered by the next run": {errPlain, lost, actAbandon},
	} {
		t.Run(name, func(t *testing.T) {
			v := parkRun(afterRun(c.err, c.state, ruleTen), c.err, c.state)
			assert.Equal(t, c.want, v.do)
			if c.want == actPark {
				assert.Equal(t, onefold.ClassUnknown, v.class)
				assert.Contains(t, v.reason, "outcome unknown: ")
			}
		})
	}
}

func TestARunWhoseCommitIsRefusedIsParked(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		outcome onefold.Outcome
		want    action
	}{
		"stored":                           {nil, onefold.Succeeded, actFinish},
		"unknown is repeated":              {onefold.ErrUnknown, onefold.Succeeded, actRepeat},
		"state moved":                      {onefold.ErrConflict, onefold.Succeeded, actPark},
		"a join failed":                    {onefold.ErrRejected, onefold.Succeeded, actPark},
		"effects that nothing can store":   {onefold.ErrTooLarge, onefold.Succeeded, actDeadLetter},
		"lost":                             {onefold.ErrLost, onefold.Succeeded, actAbandon},
		"a dead letter on moved state":     {onefold.ErrConflict, onefold.DeadLettered, actRerun},
		"what cannot be parked never runs": {onefold.ErrTooLarge, onefold.ParkedUnknown, actAbandon},
	} {
		t.Run(name, func(t *testing.T) {
			v := afterCommit(c.err, c.outcome != onefold.Succeeded, firstRun, ruleTen)
			assert.Equal(t, c.want, parkCommit(v, c.err, c.outcome).do)
		})
	}
}
