package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/memstore"
	"github.com/onefold-go/onefold/store/storetest"
)

func TestScenario_J05_ADuplicateAnswerToAFirstPublishIsNotBelievedUnlessTheStreamHasTheMessage(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		// The server keeps the ID and not the message.
		id := key("a").EffectID(0)
		ack, err := r.js.PublishMsg(r.ctx, natsMessage("out.a", id))
		require.NoError(t, err)
		stream, err := r.js.Stream(r.ctx, "OUT")
		require.NoError(t, err)
		require.NoError(t, stream.DeleteMsg(r.ctx, ack.Sequence))

		r.run(outbox.Config{})
		r.emit("a", onefold.Effect{Target: "out.a"})
		parked := r.await("parked", 1)[0].row
		assert.Equal(t, 1, parked.Attempt)
		assert.Empty(t, r.events("published"))
		assert.Contains(t, r.parked()[0].Reason, `the stream does not have it at sequence 1 of "OUT": resume the row when the stream's duplicate window of 2m0s`)
	})
}

func TestScenario_J11_AMessageWhoseLastTryHasNoAnswerIsUnknownAndNeverFailed(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{Name: "MUTE", Subjects: []string{"mute.>"}, NoAck: true})
	r.run(outbox.Config{PublishTimeout: 20 * time.Millisecond, RetryMin: time.Millisecond, RetryMax: time.Millisecond, MaxAttempts: 1})
	r.emit("a", onefold.Effect{Target: "mute.a"})
	for _, e := range r.await("delayed", 5) {
		assert.Equal(t, onefold.ClassUnknown, e.row.Class)
	}
	assert.Empty(t, r.events("parked"))
	assert.Len(t, r.stored("MUTE"), 1)
}

func TestScenario_O03_OfTwoRelaysOnOneStoreEachRowIsPublishedByOne(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		const n = 300
		r.run(outbox.Config{Window: 8})
		r.run(outbox.Config{Window: 8})
		r.emitMany("m", n, "out.a")
		r.await("settled", n)
		assert.Len(t, r.events("published"), n)
		r.requireEachOnce("m", n)
	})
}

func TestScenario_O04_ALongFirstTryBelongsToItsRelayHoweverOldItIs(t *testing.T) {
	r := newRig(t)
	clock := storetest.NewClock()
	st, err := memstore.Open(memstore.NewData(clock.Clock()), &memstore.Options{Clock: clock.Clock()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close(context.Background()) })
	r.st = st
	started, release := make(chan struct{}, 2), make(chan struct{})
	var l ledger
	c := with(outbox.Function{Do: func(_ context.Context, c outbox.Call) error {
		l.note(c)
		started <- struct{}{}
		<-release
		return nil
	}})
	r.run(c)
	r.call("a", "f", false)
	<-started
	clock.Advance(48 * time.Hour)
	r.run(c) // another relay wants the row
	waits := r.await("state waiting", 1)[0].state
	require.ErrorIs(t, waits.Err, onefold.ErrBusy)
	close(release)
	r.await("settled", 1)
	assert.Len(t, l.all(), 1)
}

func TestScenario_O07_TheAgeOfTheOldestRowIsAFigureAndAHealthCheck(t *testing.T) {
	r := newRig(t)
	clock := storetest.NewClock()
	st, err := memstore.Open(memstore.NewData(clock.Clock()), &memstore.Options{Clock: clock.Clock()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close(context.Background()) })
	r.st = st
	r.srv.Stop()
	require.Eventually(t, func() bool { return !r.nc.IsConnected() }, 10*time.Second, time.Millisecond)
	relay, err := outbox.NewRelay(r.st, outbox.Config{JetStream: r.js, Observer: r.observer()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	r.await("state waiting", 1)
	r.emitMany("m", 3, "out.a")
	clock.Advance(9 * 24 * time.Hour)
	b, err := relay.Backlog(r.ctx)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, b.Oldest, 9*24*time.Hour)
	err = b.Check(time.Hour)
	require.ErrorIs(t, err, outbox.ErrBehind)
	require.ErrorContains(t, err, "the oldest has waited 216h0m0s, the limit is 1h0m0s; the relay is waiting, 3 rows wait")
	cancel()
	require.NoError(t, <-done)
}

func TestScenario_O08_ARowThatIsSentIsGoneFromTheStore(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		r.run(outbox.Config{})
		for round := range 5 {
			r.emitMany(fmt.Sprint("m", round), 40, "out.a")
			r.await("settled", 40*(round+1))
			stats, err := r.st.Stats(r.ctx)
			require.NoError(t, err)
			assert.Zero(t, stats.Waiting)
			for item, err := range r.st.Scan(r.ctx, onefold.Query{What: onefold.WhatWaiting}) {
				require.NoError(t, err)
				assert.Fail(t, "a row is left", item.Row.Effect.ID)
			}
		}
	})
}

func TestScenario_O10_RowsThatAreAddedWhileOthersAreSentGoOutAsWell(t *testing.T) {
	onEachStore(t, func(_ *testing.T, r *rig) {
		const writers, each = 4, 50
		r.run(outbox.Config{Window: 4})
		var adding sync.WaitGroup
		for w := range writers {
			adding.Go(func() { r.emitMany(fmt.Sprint("w", w), each, "out.a") })
		}
		adding.Wait()
		r.await("settled", writers*each)
		for w := range writers {
			r.requireEachOnce(fmt.Sprint("w", w), each)
		}
	})
}

func TestScenario_O16_AtEachMomentARowIsPublishedOrStillStored(t *testing.T) {
	r := newRig(t)
	st, err := boltstore.Open(t.TempDir(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, st.Close(context.Background())) })
	r.st = st
	const n = 12
	r.emitMany("m", n, "out.a")
	// A backup at a named point is what a process that dies there leaves behind.
	var mu sync.Mutex
	left := map[string]*bytes.Buffer{}
	die := func(point string) func(onefold.RowEvent) {
		return func(e onefold.RowEvent) {
			mu.Lock()
			defer mu.Unlock()
			b := &bytes.Buffer{}
			assert.NoError(t, st.Backup(r.ctx, b))
			left[fmt.Sprintf("%s %s %d", point, e.ID, len(r.stored("OUT")))] = b
		}
	}
	heard := r.observer()
	settled := heard.Settled
	o := &onefold.Observer{Fetched: die("fetched"), Published: die("published"), Settled: func(e onefold.RowEvent) {
		die("settled")(e)
		settled(e)
	}}
	stop := r.run(outbox.Config{Window: 2, Observer: o})
	r.await("settled", n)
	require.NoError(t, stop())
	require.Len(t, left, 3*n)
	for point, backup := range left {
		requireNoneLost(t, r, point, backup)
	}
}

// requireNoneLost checks that every row of emitMany is stored in a backup or was in the stream by then.
func requireNoneLost(t *testing.T, r *rig, point string, backup *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, boltstore.Restore(r.ctx, backup, dir))
	st, err := boltstore.Open(dir, nil)
	require.NoError(t, err)
	defer func() { assert.NoError(t, st.Close(context.Background())) }()
	safe := map[string]bool{}
	for item, err := range st.Scan(r.ctx, onefold.Query{What: onefold.WhatWaiting}) {
		require.NoError(t, err)
		safe[item.Row.Effect.ID] = true
	}
	var name, id string
	var published int
	_, err = fmt.Sscan(point, &name, &id, &published)
	require.NoError(t, err)
	for _, m := range r.stored("OUT")[:published] {
		safe[m.Header.Get(onefold.HeaderID)] = true
	}
	assert.Len(t, safe, 12, point)
}

func TestScenario_O19_ARowThatIsParkedOutlivesEveryRetentionUntilItIsDiscarded(t *testing.T) {
	r := newRig(t)
	clock := storetest.NewClock()
	st, err := memstore.Open(memstore.NewData(clock.Clock()), &memstore.Options{Clock: clock.Clock()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close(context.Background()) })
	r.st = st
	r.emitMany("sent", 3, "out.a")
	c := quick
	c.MaxAttempts = 1
	r.run(c)
	r.emit("dead", onefold.Effect{Target: "nowhere.a"})
	r.await("parked", 1)
	r.await("settled", 3)
	clock.Advance(1000 * time.Hour)
	r.emitMany("later", 3, "out.a")
	r.await("settled", 6)
	stats, err := r.st.Stats(r.ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 1, stats.Parked)
	assert.EqualValues(t, 1, stats.Attention)

	n, err := outbox.Discard(r.ctx, r.st, outbox.Choice{Target: "nowhere.a"}, "nobody needs it", nil)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	stats, err = r.st.Stats(r.ctx)
	require.NoError(t, err)
	assert.Zero(t, stats.Parked+stats.Attention+stats.Waiting)
}

func TestScenario_O20_EveryRowThatHasNotEndedIsFoundByAScanAndGoesOn(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		ids := map[onefold.What]map[string]bool{onefold.WhatWaiting: {}, onefold.WhatParked: {}}
		states := map[string]struct {
			s    onefold.Settlement
			what onefold.What
		}{
			"fresh":   {what: onefold.WhatWaiting},
			"delayed": {onefold.Settlement{State: onefold.Delayed, Reason: "x"}, onefold.WhatWaiting},
			"tried":   {onefold.Settlement{State: onefold.Tried}, onefold.WhatWaiting},
			"parked":  {onefold.Settlement{State: onefold.Parked, Reason: "x"}, onefold.WhatParked},
			"held":    {onefold.Settlement{State: onefold.Parked, Reason: "x", Hold: true}, onefold.WhatParked},
		}
		for name, x := range states {
			r.call(name, "f", name == "tried")
			ids[x.what][key(name).EffectID(0)] = true
		}
		feed, err := r.st.Feed(r.ctx, time.Minute)
		require.NoError(t, err)
		rows, err := feed.Next(r.ctx, len(states))
		require.NoError(t, err)
		require.Len(t, rows, len(states))
		for _, row := range rows {
			if x := states[row.Key.ID].s; x.State != 0 {
				x.Row = row
				require.NoError(t, r.st.Settle(r.ctx, []onefold.Settlement{x}))
			}
		}
		require.NoError(t, feed.Close())
		for what, want := range ids {
			found := map[string]bool{}
			for item, err := range r.st.Scan(r.ctx, onefold.Query{What: what}) {
				require.NoError(t, err)
				found[item.Row.Effect.ID] = true
			}
			assert.Equal(t, want, found, what)
		}

		r.run(with(outbox.Function{
			Do:    func(context.Context, outbox.Call) error { return nil },
			Probe: func(context.Context, string) (outbox.ProbeResult, error) { return outbox.ProbeHappened, nil },
		}))
		r.await("settled", 3)
		_, err = outbox.Resume(r.ctx, r.st, outbox.Choice{}, "go on", nil)
		require.NoError(t, err)
		r.await("settled", len(states))
	})
}

func TestScenario_O26_ASecondStartOfARelayIsAnErrorAndASecondRelaySendsNothing(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		relay, err := outbox.NewRelay(r.st, outbox.Config{JetStream: r.js, Observer: r.observer()})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(r.ctx)
		done := make(chan error, 1)
		go func() { done <- relay.Run(ctx) }()
		r.await("state running", 1)
		require.ErrorIs(t, relay.Run(r.ctx), outbox.ErrRunning)
		second := &counter{}
		r.run(outbox.Config{Observer: second.observer(r)})
		r.await("state waiting", 1)
		r.emitMany("m", 50, "out.a")
		r.await("settled", 50)
		assert.Zero(t, second.sent.Load())
		assert.Len(t, r.stored("OUT"), 50)
		cancel()
		require.NoError(t, <-done)
	})
}

// counter counts what one of several relays publishes.
type counter struct{ sent atomic.Int64 }

func (c *counter) observer(r *rig) *onefold.Observer {
	return &onefold.Observer{
		Published: func(onefold.RowEvent) { c.sent.Add(1) },
		State:     func(e onefold.StateEvent) { r.note(told{what: "state " + e.To, state: e}) },
	}
}

func TestAThousandPoisonRowsAtTheHeadDelayNoOther(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		const poison, good = 1000, 200
		for i := range poison {
			e := onefold.Effect{Target: fmt.Sprintf("nowhere.%d", i)}
			if i%2 == 0 {
				e = onefold.Effect{Kind: onefold.KindCall, Target: "f"}
			}
			r.emit(fmt.Sprintf("poison-%d", i), e)
		}
		r.emitMany("m", good, "out.a")
		var again atomic.Bool // the poison may come again
		c := outbox.Config{
			Window: 128, MaxAttempts: 2, RetryMin: 5 * time.Millisecond, RetryMax: 5 * time.Millisecond,
			Functions: map[string]outbox.Function{"f": {Do: func(_ context.Context, c outbox.Call) error {
				if c.Attempt > 1 && !again.Load() {
					return fmt.Errorf("later: %w", onefold.ErrUnavailable)
				}
				return errors.New("poison")
			}}},
		}
		c.Observer = r.observer()
		r.run(c)
		r.await("settled", good)
		r.requireEachOnce("m", good)
		for _, e := range r.events("parked") {
			assert.Equal(t, onefold.KindMessage, e.row.Kind, "no call was parked before the others had left")
		}
		again.Store(true)
		r.await("parked", poison)
		for _, item := range r.parked() {
			assert.Contains(t, item.Reason, "given up after 2 attempts")
		}
	})
}
