package storetest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func claimlessCases() []testCase {
	return []testCase{
		{name: "without a claim a fresh key is stored", run: claimlessFresh,
			rule: "An entry without a claim is stored if its key holds nothing, and the key is done from then on."},
		{name: "without a claim an equal entry is success once", run: claimlessEqual,
			rule: "An entry without a claim whose key is stored with an equal fingerprint succeeds, names the stored record, and adds nothing."},
		{name: "without a claim another fingerprint is a mismatch", run: claimlessOther,
			rule: "An entry without a claim whose key is stored, or running, with another fingerprint gets ErrMismatch and changes nothing."},
		{name: "without a claim a running key is busy", run: claimlessRunning,
			rule: "An entry without a claim whose key is running gets ErrBusy, and the run can commit."},
		{name: "two at once without a claim are stored once", run: claimlessTogether,
			rule: "Of several equal entries without a claim that are committed at once one is stored and all succeed."},
		{name: "twice in one batch without a claim is stored once", run: claimlessBatch,
			rule: "The second of two equal entries without a claim in one batch succeeds and adds nothing."},
		{name: "without a claim an ended lease is no obstacle", needs: needClock, run: claimlessEnded,
			rule: "An entry without a claim is stored if the lease of the key's claim has ended, and that claim can do nothing any more."},
	}
}

func claimlessFresh(e *env) {
	k := key("a")
	one := e.try(nil, entry(k, message(k, 0)))
	require.NoError(e, one.Err)
	assert.Nil(e, one.Existing)
	e.verdict(onefold.Done, k, "stored without a claim")
	e.handsOut(e.feed(), k.EffectID(0))
}

func claimlessEqual(e *env) {
	k := key("a")
	en := entry(k, message(k, 0))
	en.Result = []byte("first")
	e.commit(nil, en)
	en.Result = []byte("second")
	en.Writes = []onefold.Write{put("t", "x", "1")}
	again := e.try(nil, en)
	require.NoError(e, again.Err)
	require.NotNil(e, again.Existing)
	assert.Equal(e, "first", string(again.Existing.Result))
	assert.Zero(e, e.read("t", "x").Version)
	e.handsOut(e.feed(), k.EffectID(0))
}

func claimlessOther(e *env) {
	e.commit(nil, entry(key("stored")))
	c := e.claim(key("running"))
	for _, id := range []string{"stored", "running"} {
		en := entry(key(id), message(key(id), 0))
		en.Fingerprint = print(2)
		require.ErrorIs(e, e.try(nil, en).Err, onefold.ErrMismatch, id)
	}
	assert.Equal(e, print(1), e.record(key("stored")).Fingerprint)
	e.handsOut(e.feed())
	e.commit(c, entry(key("running")))
}

func claimlessRunning(e *env) {
	k := key("a")
	c := e.claim(k)
	require.ErrorIs(e, e.try(nil, entry(k, message(k, 0))).Err, onefold.ErrBusy)
	e.nothingStored(k)
	e.commit(c, entry(k))
	e.handsOut(e.feed())
}

func claimlessTogether(e *env) {
	k := key("a")
	results := make([]*onefold.Commit, 8)
	together(len(results), func(i int) { results[i] = e.try(nil, entry(k, message(k, 0))) })
	fresh := 0
	for _, r := range results {
		require.NoError(e, r.Err)
		if r.Existing == nil {
			fresh++
		}
	}
	assert.Equal(e, 1, fresh, "entries that were stored")
	e.handsOut(e.feed(), k.EffectID(0))
}

func claimlessBatch(e *env) {
	k := key("a")
	batch := []*onefold.Commit{{Entry: entry(k, message(k, 0))}, {Entry: entry(k, message(k, 0))}}
	require.NoError(e, e.store.Commit(e.ctx, batch))
	require.NoError(e, batch[0].Err)
	require.NoError(e, batch[1].Err)
	assert.Nil(e, batch[0].Existing)
	assert.NotNil(e, batch[1].Existing)
	e.handsOut(e.feed(), k.EffectID(0))
}

func claimlessEnded(e *env) {
	k := key("a")
	former := e.claim(k)
	e.clock.Advance(lease + time.Second)
	e.commit(nil, entry(k))
	require.ErrorIs(e, e.try(former, entry(k, message(k, 0))).Err, onefold.ErrLost)
	require.ErrorIs(e, e.store.Renew(e.ctx, former, lease), onefold.ErrLost)
	assert.Greater(e, e.record(k).Token, former.Token)
	e.handsOut(e.feed())
}
