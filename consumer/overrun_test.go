package consumer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func TestARunIsToldToStopAtItsTimeoutAndGivenUpAfterItsGrace(t *testing.T) {
	r := overrunRule{timeout: 20 * time.Second}
	require.Equal(t, 5*time.Second, r.grace())
	for name, c := range map[string]struct {
		at                  stage
		now, began, stopped time.Duration
		want                overrun
	}{
		"in time":                        {stageRunning, 29 * time.Second, 10 * time.Second, 0, overrunNone},
		"at its timeout":                 {stageRunning, 30 * time.Second, 10 * time.Second, 0, overrunStop},
		"seen long after its timeout":    {stageRunning, time.Hour, 10 * time.Second, 0, overrunStop},
		"within its grace":               {stageStopping, 34 * time.Second, 10 * time.Second, 30 * time.Second, overrunNone},
		"after its grace":                {stageStopping, 35 * time.Second, 10 * time.Second, 30 * time.Second, overrunRevoke},
		"the grace starts when told":     {stageStopping, time.Hour, 10 * time.Second, time.Hour, overrunNone},
		"it has returned":                {stageHandled, time.Hour, 10 * time.Second, 30 * time.Second, overrunNone},
		"it waits for its turn":          {stagePending, time.Hour, 0, 0, overrunNone},
		"its claim is lost already":      {stageDeposed, time.Hour, 0, 0, overrunNone},
		"it has been given up already":   {stageZombie, time.Hour, 0, 0, overrunNone},
		"its dead letter is on its way":  {stageSettling, time.Hour, 0, 0, overrunNone},
		"it has not been claimed so far": {stageQueued, time.Hour, 0, 0, overrunNone},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, overrunOf(c.at, c.now, c.began, c.stopped, r)) })
	}
}

func TestTheGraceIsAQuarterOfTheTimeoutWithinBounds(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		time.Millisecond: 100 * time.Millisecond, time.Second: 250 * time.Millisecond, 15 * time.Minute: 10 * time.Second,
	} {
		assert.Equal(t, want, overrunRule{timeout}.grace(), "%v", timeout)
	}
	assert.Equal(t, 125*time.Millisecond, overrunRule{time.Second}.tick())
	assert.Equal(t, 20*time.Millisecond, overrunRule{time.Millisecond}.tick())
	assert.Equal(t, 8, zombieLimit(1))
	assert.Equal(t, 64, zombieLimit(64))
}

func TestARunThatIsGivenUpUsesUpAnAttempt(t *testing.T) {
	v, err := afterOverrun(1234567*time.Microsecond, false, firstRun, ruleTen)
	require.ErrorIs(t, err, ErrHandlerTimeout)
	assert.Equal(t, actRetry, v.do)
	assert.True(t, v.counted)
	assert.Equal(t, onefold.ClassTimeout, v.class)
	assert.Equal(t, "handler took longer than Config.HandlerTimeout: still running after 1.235s", v.reason)
	v, _ = afterOverrun(time.Second, false, lastRun, ruleTen)
	assert.Equal(t, actDeadLetter, v.do)
	v, _ = afterOverrun(time.Second, true, firstRun, ruleTen)
	assert.Equal(t, actPark, v.do)
	assert.Equal(t, onefold.ClassUnknown, v.class)
}

func TestAnErrorAfterTheTimeoutIsAFailureOfItsOwnClass(t *testing.T) {
	late := firstRun
	late.timedOut = true
	stopping := late
	stopping.stopping = true
	for name, state := range map[string]runState{"timed out": late, "timed out before the consumer stopped": stopping} {
		v := afterRun(errPlain, state, ruleTen)
		assert.Equal(t, actRetry, v.do, name)
		assert.True(t, v.counted, name)
		assert.Equal(t, onefold.ClassTimeout, v.class, name)
		assert.Contains(t, v.reason, "plain", name)
	}
	assert.Equal(t, verdict{do: actCommit}, afterRun(nil, late, ruleTen), "it has made it")
	assert.Equal(t, onefold.ClassPermanent, afterRun(onefold.Permanent(errPlain), late, ruleTen).class)
	assert.Equal(t, time.Hour, afterRun(onefold.RetryAfter(time.Hour, errPlain), late, ruleTen).delay)
	assert.Equal(t, actRetry, afterRun(onefold.ErrConflict, late, ruleTen).do, "its context is over, so it does not run again at once")
}
