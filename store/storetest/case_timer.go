package storetest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func timerCases() []testCase {
	return []testCase{
		{name: "an effect is not sent before its time", needs: needTimers | needClock, run: notBefore,
			rule: "An effect with NotBefore is handed out when the wall clock has reached that time, not earlier, and holds up nothing else."},
		{name: "an appointment follows the wall clock", needs: needTimers | needClock, run: appointment,
			rule: "NotBefore is an appointment: it is judged by the wall clock, also if that is set."},
		{name: "a delayed effect holds up its ordering key", needs: needTimers | needOrder | needClock, run: appointmentHolds,
			rule: "Later rows of an ordering key wait for an earlier one that is not due yet."},
		{name: "a named timer is replaced", needs: needTimers, run: timerReplaced,
			rule: "An effect with a timer name replaces the unsent one with the same ID: only the new one is handed out, and the record of the old one counts it no more."},
		{name: "a named timer is cancelled", needs: needTimers, run: timerCancelled,
			rule: "An effect with Cancel removes the unsent timer with the same ID and leaves nothing itself; cancelling what is not there is no error."},
		{name: "a timer of the same entry is replaced", needs: needTimers, run: timerSameEntry,
			rule: "Effects of one entry act in their order, so a timer that is set twice is there once, and one that is set and cancelled is not there."},
		{name: "other timers stay", needs: needTimers, run: otherTimersStay,
			rule: "Replacing or cancelling a timer touches no timer of another name, of another key or of another generation, and no other effect."},
		{name: "a parked timer can be cancelled", needs: needTimers, run: parkedTimerCancelled,
			rule: "A timer that is parked is unsent still, so cancelling removes it."},
		{name: "a sent timer is not brought back", needs: needTimers, run: sentTimer,
			rule: "Setting a timer again after it was sent adds one new row."},
	}
}

func notBefore(e *env) {
	k := key("a")
	en := entry(k, message(k, 0), message(k, 1))
	en.Effects[0].NotBefore = e.clock.Wall().Add(lease / 2)
	e.done(en)
	f := e.feed()
	e.handsOut(f, k.EffectID(1))
	e.clock.Advance(lease/2 - time.Second)
	e.handsOut(f)
	e.clock.Advance(2 * time.Second)
	row := e.handsOutOne(f, k.EffectID(0))
	assert.Equal(e, 1, row.Attempt)
	assert.True(e, en.Effects[0].NotBefore.Equal(row.Effect.NotBefore))
}

func appointment(e *env) {
	k := key("a")
	en := entry(k, message(k, 0))
	en.Effects[0].NotBefore = e.clock.Wall().Add(time.Hour)
	e.done(en)
	f := e.feed()
	e.handsOut(f)
	e.clock.StepWall(time.Hour + time.Second)
	e.handsOut(f, k.EffectID(0))
}

func appointmentHolds(e *env) {
	k := key("a")
	en := entry(k, ordered(k, 0, "K"), ordered(k, 1, "K"), ordered(k, 2, "L"))
	en.Effects[0].NotBefore = e.clock.Wall().Add(lease / 2)
	e.done(en)
	f := e.feed()
	e.handsOut(f, k.EffectID(2))
	e.clock.Advance(lease/2 + time.Second)
	e.settle(onefold.Sent, e.handsOutOne(f, k.EffectID(0)))
	e.handsOut(f, k.EffectID(1))
}

func timerReplaced(e *env) {
	saga, a, b := key("saga"), key("a"), key("b")
	e.done(entry(a, timer(saga, "timeout", e.clock.Wall().Add(time.Hour))))
	again := timer(saga, "timeout", time.Time{})
	again.Payload = []byte("second")
	e.done(entry(b, again))
	f := e.feed()
	row := e.handsOutOne(f, again.ID)
	assert.Equal(e, "second", string(row.Effect.Payload))
	assert.Equal(e, "timeout", row.Effect.Timer)
	assert.Zero(e, e.record(a).Unsettled)
	assert.Equal(e, 1, e.record(b).Unsettled)
	e.settle(onefold.Sent, row)
	require.NoError(e, f.Close())
	assert.Empty(e, e.scan(onefold.Query{What: onefold.WhatWaiting}))
}

// cancel is an effect that cancels the named timer of k.
func cancel(k onefold.Key, name string) onefold.Effect {
	f := timer(k, name, time.Time{})
	f.Cancel, f.Payload = true, nil
	return f
}

func timerCancelled(e *env) {
	saga, a, b := key("saga"), key("a"), key("b")
	e.done(entry(a, timer(saga, "timeout", e.clock.Wall().Add(time.Hour))))
	e.done(entry(b, cancel(saga, "timeout"), cancel(saga, "never set")))
	assert.Zero(e, e.record(a).Unsettled)
	assert.Zero(e, e.record(b).Unsettled)
	assert.Empty(e, e.scan(onefold.Query{What: onefold.WhatWaiting}))
	e.clock.StepWall(2 * time.Hour)
	e.handsOut(e.feed())
}

func timerSameEntry(e *env) {
	a := key("a")
	second := timer(a, "kept", time.Time{})
	second.Payload = []byte("second")
	e.done(entry(a, timer(a, "kept", time.Time{}), timer(a, "gone", time.Time{}), second, cancel(a, "gone")))
	assert.Equal(e, 1, e.record(a).Unsettled)
	row := e.handsOutOne(e.feed(), second.ID)
	assert.Equal(e, "second", string(row.Effect.Payload))
}

func otherTimersStay(e *env) {
	a, b, redo := key("a"), key("b"), key("a")
	redo.Gen = 1
	effects := []onefold.Effect{
		timer(a, "one", time.Time{}), timer(a, "two", time.Time{}), timer(b, "one", time.Time{}),
		timer(redo, "one", time.Time{}), message(a, 4),
	}
	e.done(entry(key("set"), effects...))
	e.done(entry(key("cancel"), cancel(a, "one")))
	e.handsOut(e.feed(), effects[1].ID, effects[2].ID, effects[3].ID, effects[4].ID)
}

func parkedTimerCancelled(e *env) {
	a := key("a")
	set := timer(a, "timeout", time.Time{})
	e.done(entry(a, set))
	f := e.feed()
	e.settle(onefold.Parked, e.handsOutOne(f, set.ID))
	e.done(entry(key("b"), cancel(a, "timeout")))
	assert.Empty(e, e.scan(onefold.Query{What: onefold.WhatParked}))
	assert.Zero(e, e.record(a).Unsettled)
	e.handsOut(f)
}

func sentTimer(e *env) {
	a, b := key("a"), key("b")
	set := timer(a, "timeout", time.Time{})
	e.done(entry(a, set))
	f := e.feed()
	e.settle(onefold.Sent, e.handsOutOne(f, set.ID))
	e.done(entry(b, set))
	row := e.handsOutOne(f, set.ID)
	assert.Equal(e, b, row.Key)
	assert.Equal(e, 1, row.Attempt)
	assert.Zero(e, e.record(a).Unsettled)
	assert.Equal(e, 1, e.record(b).Unsettled)
}
