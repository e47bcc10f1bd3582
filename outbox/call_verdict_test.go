package outbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func TestJudgeCall(t *testing.T) {
	no := errors.New("no")
	for name, test := range map[string]struct {
		end   callEnd
		want  verdict
		class onefold.Class
	}{
		"not started":              {callEnd{err: errStopping}, waiting, onefold.ClassUnavailable},
		"not announced":            {callEnd{once: true, err: onefold.ErrFull}, waiting, onefold.ClassUnavailable},
		"returned nil":             {callEnd{reached: called}, sent, onefold.ClassNone},
		"returned nil, stopped":    {callEnd{reached: called, once: true, stopped: true}, sent, onefold.ClassNone},
		"error":                    {callEnd{reached: called, err: no}, refused, onefold.ClassRefused},
		"timeout":                  {callEnd{reached: called, err: context.DeadlineExceeded}, refused, onefold.ClassUnknown},
		"stopped":                  {callEnd{reached: called, err: no, stopped: true}, waiting, onefold.ClassUnavailable},
		"permanent":                {callEnd{reached: called, err: onefold.Permanent(no)}, hopeless, onefold.ClassPermanent},
		"away":                     {callEnd{reached: called, err: onefold.ErrUnavailable}, waiting, onefold.ClassUnavailable},
		"retry after":              {callEnd{reached: called, err: onefold.RetryAfter(1, no)}, refused, onefold.ClassRefused},
		"panic":                    {callEnd{reached: called, err: &onefold.PanicError{Value: 1}}, refused, onefold.ClassPanic},
		"panic with a permanent":   {callEnd{reached: called, err: &onefold.PanicError{Value: onefold.Permanent(no)}}, refused, onefold.ClassPanic},
		"goexit":                   {callEnd{reached: called, err: onefold.ErrGoexit}, refused, onefold.ClassPanic},
		"once: error, no probe":    {callEnd{reached: called, once: true, err: no}, doubtful, onefold.ClassUnknown},
		"once: panic, no probe":    {callEnd{reached: called, once: true, err: &onefold.PanicError{Value: onefold.ErrUnavailable}}, doubtful, onefold.ClassUnknown},
		"once: stopped":            {callEnd{reached: called, once: true, err: no, stopped: true}, untold, onefold.ClassUnknown},
		"once: permanent":          {callEnd{reached: called, once: true, err: onefold.Permanent(no)}, hopeless, onefold.ClassPermanent},
		"once: away, no probe":     {callEnd{reached: called, once: true, err: onefold.ErrUnavailable}, doubtful, onefold.ClassUnknown},
		"once: retry after":        {callEnd{reached: called, once: true, err: onefold.RetryAfter(1, no)}, refused, onefold.ClassRefused},
		"once: it happened":        {callEnd{reached: called, once: true, err: no, asked: true, answer: ProbeHappened}, sent, onefold.ClassNone},
		"once: it has not":         {callEnd{reached: called, once: true, err: no, asked: true, answer: ProbeNotHappened}, refused, onefold.ClassRefused},
		"once: it is not known":    {callEnd{reached: called, once: true, err: no, asked: true}, doubtful, onefold.ClassUnknown},
		"once: an error counts":    {callEnd{reached: called, once: true, err: no, asked: true, answer: ProbeHappened, probeErr: no}, doubtful, onefold.ClassUnknown},
		"found: no probe":          {callEnd{reached: askedOnly, once: true}, doubtful, onefold.ClassUnknown},
		"found: it happened":       {callEnd{reached: askedOnly, once: true, asked: true, answer: ProbeHappened}, sent, onefold.ClassNone},
		"found: it is not known":   {callEnd{reached: askedOnly, once: true, asked: true}, doubtful, onefold.ClassUnknown},
		"found: stopped":           {callEnd{reached: askedOnly, once: true, asked: true, probeErr: no, stopped: true}, untold, onefold.ClassUnknown},
		"found: probe has no word": {callEnd{reached: askedOnly, once: true, asked: true, probeErr: no}, doubtful, onefold.ClassUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			got, class, err := judgeCall(test.end)
			assert.Equal(t, test.want, got, "%v", got)
			assert.Equal(t, test.class, class)
			if got != sent {
				require.Error(t, err)
			}
		})
	}
}

func TestRowsWithoutRoomAreBookedBehindEachOtherAtTheRateOfTheCalls(t *testing.T) {
	const s = time.Second
	turns := turns{}
	turns.note(1*s, 2*s)
	for i, want := range []time.Duration{10 * s, 11 * s, 12 * s} { // two at once, 20 held: half of them is called in 10 s
		assert.Equal(t, want, turns.book(1*s, 2, 20, time.Minute), "row %d", i)
	}
	turns.note(11*s, 2*s)
	assert.Equal(t, 3*s, turns.book(11*s, 2, 1, time.Minute), "what is booked stays booked")
	turns.note(100*s, 2*s)
	assert.Equal(t, 4*s, turns.book(100*s, 2, 8, time.Minute), "what is past is not")
	turns.note(200*s, 2*s)
	assert.Equal(t, 5*s, turns.book(200*s, 2, 20, 5*s), "no later than this")
	turns.took = 1
	assert.Equal(t, minDuration, turns.book(300*s, 1000000, 1, time.Hour), "and never at once")
}

func TestACallThatDoesNotEndTakesAtLeastAsLongAsItHas(t *testing.T) {
	turns := turns{ended: time.Second}
	assert.Equal(t, 4*time.Second, turns.book(3*time.Second, 1, 4, time.Minute), "before the first has ended")
	turns.note(4*time.Second, time.Millisecond)
	assert.Equal(t, 40*time.Second, turns.book(24*time.Second, 1, 4, time.Minute), "when all hang that were quick")
}

func TestRowsThatComeBackLeaveTheFeedTimeForOthers(t *testing.T) {
	const held, rows = 32, 10000
	turns := turns{}
	turns.note(0, 10*time.Second)
	inFirstSecond, last := 0, time.Duration(0)
	for range rows {
		if last = turns.book(0, 2, held, 20*time.Millisecond); last < time.Second {
			inFirstSecond++
		}
	}
	assert.LessOrEqual(t, inFirstSecond, 5*held, "five batches")
	assert.Less(t, last, rows/held*batchShare+time.Second)
}

func TestABadFunctionIsRefusedWithItsNameValueAndRemedy(t *testing.T) {
	do := func(context.Context, Call) error { return nil }
	for want, f := range map[string]Function{
		`["f"].Do is nil; give the function to call`:                              {},
		`["f"].Timeout is -1ns; it must be positive, or 0 for 10s`:                {Do: do, Timeout: -1},
		`["f"].Timeout is 10ns; it must be at least 1ms (is the unit right?)`:     {Do: do, Timeout: 10},
		`["f"].Timeout is 30s, Lease is 30s; rows would be taken over while they`: {Do: do, Timeout: 30 * time.Second},
		`["f"].Window is -1; it must be positive, or 0 for 16`:                    {Do: do, Window: -1},
	} {
		_, err := NewRelay(openStore(t), Config{JetStream: someJetStream{}, Functions: map[string]Function{"f": f}})
		require.ErrorIs(t, err, onefold.ErrInvalid)
		assert.Contains(t, err.Error(), "outbox.Config.Functions"+want)
	}
	_, err := NewRelay(openStore(t), Config{JetStream: someJetStream{}, Functions: map[string]Function{"a b": {Do: do}, "": {Do: do}}})
	require.ErrorIs(t, err, onefold.ErrInvalid)
	assert.Contains(t, err.Error(), `name of a function is "a b"; only letters`)
	assert.Contains(t, err.Error(), `name of a function is empty`)
}

func TestAFunctionTakesItsDefaults(t *testing.T) {
	given := map[string]Function{"f": {Do: func(context.Context, Call) error { return nil }}}
	c := Config{JetStream: someJetStream{}, Functions: given}.withDefaults()
	require.NoError(t, c.check())
	assert.Equal(t, 10*time.Second, c.Functions["f"].Timeout)
	assert.Equal(t, 16, c.Functions["f"].Window)
	assert.Zero(t, given["f"].Window, "the caller's map stays as it is")
}
