package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func shareCases() []testCase {
	return []testCase{
		{name: "a second opener is refused", needs: needSecond, run: secondOpener,
			rule: "Opening the data of a one-process store while it is open fails with ErrInUse and costs the store nothing."},
		{name: "handles share claims and outcomes", needs: needShared, run: shareClaims,
			rule: "A key that is claimed through one handle is busy through the other, its failures are told there, and its outcome is done there as soon as the commit has returned."},
		{name: "one of many callers on two handles is granted", needs: needShared, run: shareOneGranted,
			rule: "When many callers ask for one key through two handles at once, exactly one is granted."},
		{name: "a claim is overtaken through another handle", needs: needShared | needClock, run: shareOvertaken,
			rule: "A claim whose lease has ended is granted through another handle under a higher token, and its former holder can do nothing any more."},
		{name: "several feeds share the rows", needs: needFeeds, run: feedsShare,
			rule: "Of several feeds that ask at once each row goes to one."},
		{name: "rows of a closed feed go to another", needs: needFeeds, run: feedsTakeOver,
			rule: "While one feed has a row no other is given it; when that feed is closed another gets it with a higher attempt, and the former hold settles nothing."},
		{name: "an ordering key is one over several feeds", needs: needFeeds | needOrder, run: feedsKeepOrder,
			rule: "A row of an ordering key is handed to no feed while an earlier one of it is out at another."},
	}
}

func secondOpener(e *env) {
	k := e.doneWith("a", 1)
	c := e.claim(key("b"))
	s, err := e.in.Another(e)
	if s != nil {
		e.closeAtEnd(s)
	}
	require.ErrorIs(e, err, onefold.ErrInUse)
	e.verdict(onefold.Done, k, "stored before")
	e.commit(c, entry(key("b")))
	e.handsOut(e.feed(), k.EffectID(0))
}

func shareClaims(e *env) {
	k := key("a")
	here, there := e.store, e.another()
	c := e.claim(k)
	e.store = there
	e.verdict(onefold.Busy, k, "claimed through the other handle")
	e.store = here
	require.NoError(e, here.Release(e.ctx, c, onefold.Failure{Reason: "no", Counted: true}))
	e.store = there
	g := e.verdict(onefold.Granted, k, "released through the other handle")
	assert.Greater(e, g.Claim.Token, c.Token)
	assert.Equal(e, 1, g.History.Failures)
	en := entry(k)
	en.Writes = []onefold.Write{put("t", "x", "1")}
	e.commit(g.Claim, en)
	e.store = here
	assert.Equal(e, g.Claim.Token, e.verdict(onefold.Done, k, "committed through the other handle").Record.Token)
	assert.Equal(e, "1", string(e.read("t", "x").Data))
}

func shareOneGranted(e *env) {
	handles := []onefold.Store{e.store, e.another()}
	grants := make([]onefold.Grant, 40)
	together(len(grants), func(i int) {
		var err error
		grants[i], err = handles[i%2].Begin(e.ctx, request(key("a")))
		assert.NoError(e, err)
	})
	granted := 0
	for _, g := range grants {
		if g.Verdict == onefold.Granted {
			granted++
		}
	}
	assert.Equal(e, 1, granted, "callers that were granted the key")
}

func shareOvertaken(e *env) {
	k := key("a")
	here, there := e.store, e.another()
	former := e.claim(k)
	e.clock.Advance(lease + time.Second)
	e.store = there
	present := e.claim(k)
	assert.Greater(e, present.Token, former.Token)
	require.ErrorIs(e, here.Renew(e.ctx, former, lease), onefold.ErrLost)
	e.commit(present, entry(k))
	e.store = here
	require.ErrorIs(e, e.try(former, entry(k, message(k, 0))).Err, onefold.ErrLost)
	e.handsOut(e.feed())
}

func feedsShare(e *env) {
	const n = 40
	e.doneWith("a", n)
	feeds := []onefold.Feed{e.feed(), e.feed(), e.feed()}
	ctx, stop := context.WithCancel(e.ctx)
	defer stop()
	var mu sync.Mutex
	times := map[string]int{}
	together(len(feeds), func(i int) {
		for {
			rows, err := feeds[i].Next(ctx, 3)
			if err != nil {
				assert.ErrorIs(e, err, context.Canceled)
				return
			}
			mu.Lock()
			for _, r := range rows {
				times[r.Effect.ID]++
			}
			if len(times) == n {
				stop()
			}
			mu.Unlock()
			assert.NoError(e, e.store.Settle(e.ctx, sentAll(rows)))
		}
	})
	require.Len(e, times, n)
	for id, count := range times {
		assert.Equal(e, 1, count, id)
	}
	e.handsOut(feeds[0])
}

func feedsTakeOver(e *env) {
	k := e.doneWith("a", 1)
	former, present := e.feed(), e.feed()
	old := e.handsOutOne(former, k.EffectID(0))
	e.handsOut(present)
	require.NoError(e, former.Close())
	row := e.handsOutOne(present, k.EffectID(0))
	assert.Equal(e, 2, row.Attempt)
	require.ErrorIs(e, e.store.Settle(e.ctx, sentAll([]onefold.Row{old})), onefold.ErrLost)
	assert.Equal(e, 1, e.record(k).Unsettled)
	e.settle(onefold.Sent, row)
}

func feedsKeepOrder(e *env) {
	a := key("a")
	e.done(entry(a, ordered(a, 0, "K"), ordered(a, 1, "K")))
	first, second := e.feed(), e.feed()
	row := e.handsOutOne(first, a.EffectID(0))
	e.handsOut(second)
	e.settle(onefold.Sent, row)
	e.handsOut(second, a.EffectID(1))
}
