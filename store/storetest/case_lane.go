package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func laneCases() []testCase {
	return []testCase{
		{name: "erasing a row lets its ordering key go on", needs: needOrder, run: eraseFreesLane,
			rule: "When a row that is out, delayed, or parked with Hold is erased, the next row of its ordering key is handed out, to a Next that waits already."},
		{name: "cancelling a timer lets its ordering key go on", needs: needOrder | needTimers, run: cancelFreesLane,
			rule: "When a timer that is not due, out, delayed, or parked with Hold is cancelled or set anew, the next row of its ordering key is handed out, to a Next that waits already."},
	}
}

// stuck are the ways in which a row holds up its ordering key.
func stuck(e *env) map[string]func(onefold.Row) {
	return map[string]func(onefold.Row){
		"out": func(onefold.Row) {},
		"delayed": func(r onefold.Row) {
			e.settleOne(onefold.Settlement{Row: r, State: onefold.Delayed, At: e.clock.Wall().Add(time.Hour)})
		},
		"parked": func(r onefold.Row) {
			e.settleOne(onefold.Settlement{Row: r, State: onefold.Parked, Hold: true})
		},
	}
}

// goesOn checks that free brings the effect with this ID to a Next that waits.
func goesOn(e *env, f onefold.Feed, id, why string, free func()) {
	e.Helper()
	e.handsOut(f) // nothing is due
	waiting := e.nextLater(e.ctx, f)
	free()
	got := <-waiting
	require.NoError(e, got.err, why)
	require.Len(e, got.rows, 1, why)
	require.Equal(e, id, got.rows[0].Effect.ID, why)
	e.settle(onefold.Sent, got.rows...)
}

func eraseFreesLane(e *env) {
	f := e.feed()
	for state, stick := range stuck(e) {
		a, b := key(state+" a"), key(state+" b")
		e.done(entry(a, ordered(a, 0, state), ordered(a, 1, state)))
		e.done(entry(b, ordered(b, 0, state)))
		stick(e.handsOutOne(f, a.EffectID(0)))
		goesOn(e, f, b.EffectID(0), state, func() { require.NoError(e, e.store.Erase(e.ctx, a)) })
	}
}

func cancelFreesLane(e *env) {
	f := e.feed()
	states := stuck(e)
	states["not due"] = nil
	for state, stick := range states {
		for _, end := range []string{"cancelled", "set anew"} {
			lane := state + " " + end
			a, b := key(lane+" a"), key(lane+" b")
			set := timer(a, "timeout", time.Time{})
			set.OrderKey = lane
			if stick == nil {
				set.NotBefore = e.clock.Wall().Add(time.Hour)
			}
			e.done(entry(a, set, ordered(a, 1, lane)))
			if stick != nil {
				stick(e.handsOutOne(f, set.ID))
			}
			effect := cancel(a, "timeout")
			if end == "set anew" {
				effect = timer(a, "timeout", e.clock.Wall().Add(time.Hour))
			}
			goesOn(e, f, a.EffectID(1), lane, func() { e.done(entry(b, effect)) })
		}
	}
}
