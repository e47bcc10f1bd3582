package storetest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func reopenCases() []testCase {
	both := func(name, rule string, needs need, run func(e *env, reopen func())) []testCase {
		return []testCase{
			{name: name + ", closed", needs: needs | needReopen, rule: rule + " (After a clean close.)",
				run: func(e *env) { run(e, func() { e.reopen(true) }) }},
			{name: name + ", cut off", needs: needs | needReopen, rule: rule + " (After an unclean end.)",
				run: func(e *env) { run(e, func() { e.reopen(false) }) }},
		}
	}
	all := []testCase{
		{name: "a store tells whether it was closed", needs: needReopen, run: tellsClean,
			rule: "Info.Clean is true for new data and after a clean close, and false after an unclean end; ID and Created stay, Position never falls."},
		{name: "the epoch grows", needs: needReopen | needEpoch, run: epochGrows,
			rule: "Each Open has a higher Info.Epoch, and it is the high bits of every token."},
		{name: "closed time does not count", needs: needReopen | needClock, run: closedTime,
			rule: "Retention passes only while the store is open; a restart in between, or a jump of the wall clock meanwhile, neither ends a record nor starts its time anew."},
		{name: "failures survive a clean close", needs: needReopen, run: failuresSurvive,
			rule: "Counted failures are still told after a clean close."},
		{name: "durable starts survive an unclean end", needs: needReopen | needEpoch, run: startsSurvive,
			rule: "A start that was counted durably before the process died is told, as one without a failure, to the next run."},
		{name: "calls on a store that was cut off fail", needs: needReopen, run: cutOff,
			rule: "After an unclean end the former store and its feed return errors and store nothing."},
	}
	all = append(all, both("stored things survive", "Records with their fingerprint and result, state with its versions, and rows are there after a reopen.", 0, survives)...)
	all = append(all, both("tokens grow over a reopen", "A claim granted after a reopen has a higher token than any before.", 0, tokensGrow)...)
	all = append(all, both("claims end with their process", "A claim of a one-process store is gone after a reopen, the key is free at once, and the former claim is refused with ErrLost.", needEpoch, claimsEnd)...)
	all = append(all, both("a commit can be repeated after a reopen", "Committing the same claim and entry again after a reopen is success with no second effect.", 0, repeatAfterReopen)...)
	all = append(all, both("versions do not repeat over a reopen", "A value that is deleted and written anew after a reopen has a version it never had.", 0, versionsAfterReopen)...)
	all = append(all, both("row states survive", "Sent rows stay away, parked rows stay parked, delayed rows keep their time, tried rows are marked, and a row that was out comes again.", needClock, rowStatesSurvive)...)
	all = append(all, both("a row of an earlier open settles nothing", "Settling with a row that was handed out before a reopen returns ErrLost for every state, and leaves the row with its present holder.", 0, earlierRow)...)
	all = append(all, both("a held ordering key stays held", "An ordering key whose row is parked with Hold is still held after a reopen.", needOrder, holdSurvives)...)
	all = append(all, both("timers survive", "A timer that was set before a reopen comes at its time, and can be replaced and cancelled after it.", needTimers, timersSurvive)...)
	all = append(all, both("erased stays erased", "After a reopen an erased key is still done, still erased, and its effects are still gone.", 0, erasedSurvives)...)
	return append(all, both("attention survives", "What needs a person is still found after a reopen.", needAttention, attentionSurvives)...)
}

func tellsClean(e *env) {
	first := e.store.Info()
	assert.True(e, first.Clean, "new data")
	assert.NotEmpty(e, first.ID)
	position := first.Position
	for i, clean := range []bool{true, false, false, true, true} {
		e.doneWith(name("a", i), 1)
		e.reopen(clean)
		info := e.store.Info()
		assert.Equal(e, clean, info.Clean, "opening %d", i)
		assert.Equal(e, first.ID, info.ID)
		assert.True(e, first.Created.Equal(info.Created))
		assert.Greater(e, info.Position, position, "something was committed")
		position = info.Position
	}
	e.use(e.harness.Open(e, e.clock.Clock()))
	assert.NotEqual(e, first.ID, e.store.Info().ID, "other data")
}

func epochGrows(e *env) {
	type granted struct{ epoch, token uint64 }
	var all []granted
	last := granted{}
	for i, clean := range []bool{true, false, true} {
		epoch := e.store.Info().Epoch
		require.Greater(e, epoch, last.epoch)
		for j := range 3 {
			c := e.claim(key(name(name("a", i), j)))
			require.Greater(e, c.Token, last.token)
			last = granted{epoch, c.Token}
			all = append(all, last)
		}
		e.reopen(clean)
	}
	for shift := 1; shift < 64; shift++ {
		if !slices.ContainsFunc(all, func(g granted) bool { return g.token>>shift != g.epoch }) {
			return
		}
	}
	assert.Fail(e, "the epoch is not the high bits of the tokens", "%v", all)
}

func closedTime(e *env) {
	e.done(entry(key("a")))
	e.clock.Advance(retain / 2)
	e.reopenLater(48 * time.Hour)
	e.verdict(onefold.Done, key("a"), "half of its time, and two days closed")
	e.clock.StepWall(-100 * time.Hour)
	e.verdict(onefold.Done, key("a"), "the wall clock went back")
	e.reopenLater(0)
	e.clock.Advance(retain/2 - time.Minute)
	e.verdict(onefold.Done, key("a"), "a minute before the end")
	e.clock.Advance(2 * time.Minute)
	e.verdict(onefold.Granted, key("a"), "its time has passed while the store was open")
}

func failuresSurvive(e *env) {
	e.fail(key("a"), "one", true)
	e.fail(key("a"), "two", true)
	e.reopen(true)
	h := e.history(key("a"))
	assert.Equal(e, 2, h.Failures)
	assert.Equal(e, "two", h.LastReason)
}

func startsSurvive(e *env) {
	r := request(key("a"))
	r.Durable = true
	for i := range 3 {
		g := e.beginAs(r)
		require.Equal(e, onefold.Granted, g.Verdict)
		assert.Equal(e, i, g.History.Starts)
		assert.Zero(e, g.History.Failures)
		e.reopen(false)
	}
}

func cutOff(e *env) {
	k := e.doneWith("a", 1)
	former := e.store
	f := e.feed()
	row := e.handsOutOne(f, k.EffectID(0))
	c := e.claim(key("b"))
	e.reopen(false)
	_, err := former.Begin(e.ctx, request(key("c")))
	assert.Error(e, err)
	one := &onefold.Commit{Claim: c, Entry: entry(key("b"))}
	if former.Commit(e.ctx, []*onefold.Commit{one}) == nil {
		assert.Error(e, one.Err)
	}
	assert.Error(e, former.Settle(e.ctx, sentAll([]onefold.Row{row})))
	_, err = f.Next(e.ctx, 10)
	assert.Error(e, err)
	e.nothingStored(key("b"))
	e.handsOut(e.feed(), k.EffectID(0))
}

func survives(e *env, reopen func()) {
	k := key("a")
	en := entry(k, message(k, 0), message(k, 1))
	en.Result = []byte("paid")
	en.Writes = []onefold.Write{put("t", "x", "1")}
	en.Effects[0].Header = onefold.Header{"Trace": {"one"}}
	e.done(en)
	before, value := e.record(k), e.read("t", "x")
	for range 2 {
		reopen()
		after := e.record(k)
		assert.True(e, before.At.Equal(after.At))
		after.At = before.At
		assert.Equal(e, before, after)
		assert.Equal(e, value, e.read("t", "x"))
		e.verdict(onefold.Done, k, "stored before the reopen")
		assert.Equal(e, onefold.Mismatch.String(), e.beginPrinted(k, print(2)).Verdict.String())
	}
	rows := e.handsOut(e.feed(), k.EffectID(0), k.EffectID(1))
	assert.Equal(e, en.Effects[0], rows[0].Effect)
	assert.Equal(e, en.Effects[1], rows[1].Effect)
}

func tokensGrow(e *env, reopen func()) {
	last := uint64(0)
	for i := range 4 {
		for j := range 3 {
			c := e.claim(key(name(name("a", i), j)))
			require.Greater(e, c.Token, last)
			last = c.Token
		}
		reopen()
	}
}

func claimsEnd(e *env, reopen func()) {
	former := e.claim(key("a"))
	reopen()
	present := e.claim(key("a"))
	require.ErrorIs(e, e.try(former, entry(key("a"))).Err, onefold.ErrLost)
	require.ErrorIs(e, e.store.Release(e.ctx, former, onefold.Failure{Reason: "late", Counted: true}), onefold.ErrLost)
	e.commit(present, entry(key("a")))
}

func repeatAfterReopen(e *env, reopen func()) {
	k := key("a")
	c := e.claim(k)
	en := entry(k, message(k, 0))
	e.commit(c, en)
	reopen()
	again := e.try(c, en)
	require.NoError(e, again.Err)
	require.NotNil(e, again.Existing)
	assert.Equal(e, 1, e.record(k).Unsettled)
	e.handsOut(e.feed(), k.EffectID(0))
}

func versionsAfterReopen(e *env, reopen func()) {
	seen := map[uint64]bool{}
	for range 4 {
		e.write(put("t", "x", "v"))
		v := e.read("t", "x").Version
		require.False(e, seen[v], "version %d was used before", v)
		seen[v] = true
		e.write(onefold.Write{Table: "t", Key: "x", Delete: true})
		reopen()
	}
}

func rowStatesSurvive(e *env, reopen func()) {
	k := e.doneWith("a", 5)
	rows := e.handsOut(e.feed(), k.EffectID(0), k.EffectID(1), k.EffectID(2), k.EffectID(3), k.EffectID(4))
	require.NoError(e, e.store.Settle(e.ctx, []onefold.Settlement{
		{Row: rows[0], State: onefold.Sent},
		{Row: rows[1], State: onefold.Parked, Reason: "poison"},
		{Row: rows[2], State: onefold.Delayed, At: e.clock.Wall().Add(lease / 2)},
		{Row: rows[3], State: onefold.Tried},
	}))
	reopen()
	assert.Equal(e, 4, e.record(k).Unsettled)
	f := e.feed()
	again := e.handsOut(f, k.EffectID(3), k.EffectID(4))
	assert.True(e, again[0].Tried)
	assert.Equal(e, "poison", e.parked().Reason)
	e.clock.Advance(lease/2 + time.Second)
	assert.Equal(e, 2, e.handsOutOne(f, k.EffectID(2)).Attempt, "its attempt was settled")
	e.settle(onefold.Delayed, *e.parked().Row)
	assert.Equal(e, 2, e.handsOutOne(f, k.EffectID(1)).Attempt)
}

func earlierRow(e *env, reopen func()) {
	k := e.doneWith("a", 2)
	old := e.handsOut(e.feed(), k.EffectID(0), k.EffectID(1))
	reopen()
	f := e.feed()
	rows := e.handsOut(f, k.EffectID(0), k.EffectID(1))
	for i := range old {
		for _, state := range allStates {
			err := e.store.Settle(e.ctx, []onefold.Settlement{{Row: old[i], State: state}})
			require.ErrorIs(e, err, onefold.ErrLost, state.String())
		}
	}
	assert.Equal(e, 2, e.record(k).Unsettled)
	e.settle(onefold.Sent, rows...)
	assert.Zero(e, e.record(k).Unsettled)
	e.handsOut(e.feedAgain(f))
}

func holdSurvives(e *env, reopen func()) {
	k := key("a")
	e.done(entry(k, ordered(k, 0, "K"), ordered(k, 1, "K")))
	e.settleOne(onefold.Settlement{Row: e.handsOutOne(e.feed(), k.EffectID(0)), State: onefold.Parked, Hold: true})
	reopen()
	f := e.feed()
	e.handsOut(f)
	e.settle(onefold.Delayed, *e.parked().Row)
	e.settle(onefold.Sent, e.handsOutOne(f, k.EffectID(0)))
	e.handsOut(f, k.EffectID(1))
}

func timersSurvive(e *env, reopen func()) {
	k := key("a")
	at := e.clock.Wall().Add(time.Hour)
	e.done(entry(k, timer(k, "kept", at), timer(k, "replaced", at), timer(k, "cancelled", at)))
	reopen()
	e.done(entry(key("b"), timer(k, "replaced", time.Time{}), cancel(k, "cancelled")))
	f := e.feed()
	e.settle(onefold.Sent, e.handsOutOne(f, k.TimerID("replaced")))
	e.clock.StepWall(2 * time.Hour)
	e.handsOut(f, k.TimerID("kept"))
}

func erasedSurvives(e *env, reopen func()) {
	k := e.doneWith("a", 1)
	require.NoError(e, e.store.Erase(e.ctx, k))
	reopen()
	assert.True(e, e.verdict(onefold.Done, k, "the mark dedupes").Record.Erased)
	e.handsOut(e.feed())
}

func attentionSurvives(e *env, reopen func()) {
	e.ended(key("dead"), onefold.DeadLettered)
	reopen()
	outcomes, _ := e.attention()
	assert.Equal(e, map[onefold.Key]onefold.Outcome{key("dead"): onefold.DeadLettered}, outcomes)
}
