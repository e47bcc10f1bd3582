package storetest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func leaseCases() []testCase {
	return []testCase{
		{name: "a claim holds until its lease ends", needs: needClock, run: holdsUntilEnd,
			rule: "A claim keeps others away for the whole lease and not longer; then anyone may take it over, under a higher token."},
		{name: "renewing starts the lease anew", needs: needClock, run: renewing,
			rule: "Renew makes the lease end that long from now, and the token stays."},
		{name: "jumps of the wall clock end no lease", needs: needClock, run: wallEndsNoLease,
			rule: "A wall clock that jumps forward ends no lease, and one that jumps back makes none longer."},
		{name: "an overtaken holder can do nothing", needs: needClock, run: overtaken,
			rule: "After a takeover the former holder's renew, release and commit return ErrLost and change nothing."},
		{name: "a late result never replaces the stored one", needs: needClock, run: lateResult,
			rule: "When the new holder has committed, the former holder's commit and release return ErrLost and the stored result stays."},
		{name: "a wrong token is refused", run: wrongToken,
			rule: "Renew, release and commit with no token or another than the live claim's return ErrLost and change nothing, whether or not the handle is the right one."},
		{name: "a commit in flight outlives its lease", needs: needClock | needHold, run: inFlight,
			rule: "From the moment a commit is accepted until its outcome is known the claim cannot end: others are told busy, renewing is success, releasing is refused as busy."},
		{name: "a refused commit keeps its claim", needs: needClock | needHold, run: refusedInFlight,
			rule: "A claim whose lease ended while its commit was in flight is still held, for a fresh lease, if that commit is refused with ErrConflict."},
	}
}

func holdsUntilEnd(e *env) {
	first := e.claim(key("a"))
	e.clock.Advance(lease - time.Second)
	g := e.verdict(onefold.Busy, key("a"), "a second before the end")
	assert.LessOrEqual(e, g.RetryAfter, lease)
	e.clock.Advance(2 * time.Second)
	second := e.claim(key("a"))
	assert.Greater(e, second.Token, first.Token)
}

func renewing(e *env) {
	c := e.claim(key("a"))
	token := c.Token
	for range 3 {
		e.clock.Advance(lease - time.Second)
		require.NoError(e, e.store.Renew(e.ctx, c, lease))
	}
	assert.Equal(e, token, c.Token)
	e.clock.Advance(lease - time.Second)
	e.verdict(onefold.Busy, key("a"), "renewed a moment ago")
	require.NoError(e, e.store.Renew(e.ctx, c, time.Second))
	e.clock.Advance(2 * time.Second)
	assert.Greater(e, e.claim(key("a")).Token, token, "the last renewal was short")
}

func wallEndsNoLease(e *env) {
	e.claim(key("a"))
	e.clock.StepWall(time.Hour)
	e.verdict(onefold.Busy, key("a"), "the wall clock went forward")
	e.clock.StepWall(-48 * time.Hour)
	e.verdict(onefold.Busy, key("a"), "the wall clock went back")
	e.clock.Advance(lease + time.Second)
	e.claim(key("a"))
}

func overtaken(e *env) {
	k := key("a")
	f := e.feed()
	former := e.claim(k)
	e.clock.Advance(lease + time.Second)
	present := e.claim(k)

	late := entry(k, message(k, 0))
	late.Writes = []onefold.Write{put("t", "x", "late")}
	require.ErrorIs(e, e.store.Renew(e.ctx, former, lease), onefold.ErrLost)
	require.ErrorIs(e, e.store.Release(e.ctx, former, onefold.Failure{Reason: "late", Counted: true}), onefold.ErrLost)
	require.ErrorIs(e, e.try(former, late).Err, onefold.ErrLost)

	e.nothingStored(k)
	assert.Zero(e, e.read("t", "x").Version)
	e.verdict(onefold.Busy, k, "the new holder's claim stands")
	f = e.feedAgain(f)
	e.handsOut(f)
	require.NoError(e, e.store.Release(e.ctx, present, onefold.Failure{Reason: "mine", Counted: true}))
	assert.Equal(e, 1, e.verdict(onefold.Granted, k, "released").History.Failures, "the late failure was not counted")
}

// feedAgain closes f, whose lease may have ended, and opens another feed.
func (e *env) feedAgain(f onefold.Feed) onefold.Feed {
	e.Helper()
	require.NoError(e, f.Close())
	return e.feed()
}

func lateResult(e *env) {
	k := key("a")
	former := e.claim(k)
	e.clock.Advance(lease + time.Second)
	en := entry(k)
	en.Result = []byte("new")
	e.done(en)
	en.Result = []byte("late")
	require.ErrorIs(e, e.try(former, en).Err, onefold.ErrLost)
	require.ErrorIs(e, e.store.Release(e.ctx, former, onefold.Failure{Reason: "late", Counted: true}), onefold.ErrLost)
	assert.Equal(e, "new", string(e.verdict(onefold.Done, k, "stored").Record.Result))
}

func wrongToken(e *env) {
	k := key("a")
	c := e.claim(k)
	for _, token := range []uint64{0, c.Token - 1, c.Token + 1} {
		for _, handle := range []any{c.Handle, nil} {
			forged := *c
			forged.Token, forged.Handle = token, handle
			require.ErrorIs(e, e.store.Renew(e.ctx, &forged, lease), onefold.ErrLost)
			require.ErrorIs(e, e.store.Release(e.ctx, &forged, onefold.Failure{Reason: "forged", Counted: true}), onefold.ErrLost)
			require.ErrorIs(e, e.try(&forged, entry(k)).Err, onefold.ErrLost)
		}
	}
	e.nothingStored(k)
	e.verdict(onefold.Busy, k, "the claim stands")
	e.commit(c, entry(k))
}

func inFlight(e *env) {
	k := key("a")
	c := e.claim(k)
	accepted, release := e.hold()
	result := make(chan *onefold.Commit, 1)
	go func() { result <- e.try(c, entry(k)) }()
	e.await(accepted, "the commit is accepted")
	e.clock.Advance(10 * lease)
	g, err := e.store.Begin(e.ctx, request(k))
	renewed := e.store.Renew(e.ctx, c, lease)
	released := e.store.Release(e.ctx, c, onefold.Failure{Reason: "no", Counted: true})
	release()
	require.NoError(e, (<-result).Err)
	require.NoError(e, err)
	assert.Equal(e, onefold.Busy.String(), g.Verdict.String(), "while the commit is in flight")
	assert.Positive(e, g.RetryAfter)
	assert.LessOrEqual(e, g.RetryAfter, lease)
	assert.NoError(e, renewed, "Renew while the commit is in flight")
	assert.ErrorIs(e, released, onefold.ErrBusy, "Release while the commit is in flight")
	e.verdict(onefold.Done, k, "the commit has returned")
}

func refusedInFlight(e *env) {
	k := key("a")
	e.write(put("t", "x", "moved"))
	c := e.claim(k)
	accepted, release := e.hold()
	result := make(chan *onefold.Commit, 1)
	go func() { result <- e.try(c, readModifyWrite(k, "t", "x", onefold.Value{})) }()
	e.await(accepted, "the commit is accepted")
	e.clock.Advance(10 * lease)
	release()
	require.ErrorIs(e, (<-result).Err, onefold.ErrConflict)
	e.clock.Advance(lease - time.Second)
	e.verdict(onefold.Busy, k, "the claim is held for a fresh lease")
	require.NoError(e, e.store.Renew(e.ctx, c, lease))
	e.commit(c, readModifyWrite(k, "t", "x", e.read("t", "x")))
	e.verdict(onefold.Done, k, "committed after reading again")
}
