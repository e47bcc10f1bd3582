package outbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
)

// decided is an observer of what people decide.
type decided struct {
	mu     sync.Mutex
	events map[string]string // "resumed <id>" or "discarded <id>" to its reason
}

func (d *decided) observer() *onefold.Observer {
	note := func(what string) func(onefold.RowEvent) {
		return func(e onefold.RowEvent) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.events == nil {
				d.events = map[string]string{}
			}
			d.events[what+" "+e.ID] = e.Reason
		}
	}
	return &onefold.Observer{RowResumed: note("resumed"), RowDiscarded: note("discarded")}
}

// parkMany parks n rows of the subjects nowhere.0 to nowhere.<n-1>.
func (r *rig) parkMany(n int) {
	r.t.Helper()
	for i := range n {
		r.emit(fmt.Sprintf("p-%d", i), onefold.Effect{Target: fmt.Sprintf("nowhere.%d", i)})
	}
	c := quick
	c.MaxAttempts = 1
	stop := r.run(c)
	r.await("parked", n)
	require.NoError(r.t, stop())
}

func TestParkedRowsAreChosenByWhatIsSetOfThem(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		r.parkMany(4)
		for name, test := range map[string]struct {
			choice outbox.Choice
			want   int
		}{
			"all":                          {outbox.Choice{}, 4},
			"by ID":                        {outbox.Choice{IDs: []string{key("p-1").EffectID(0), key("p-3").EffectID(0)}}, 2},
			"by key":                       {outbox.Choice{Key: key("p-2")}, 1},
			"by kind":                      {outbox.Choice{Kind: onefold.KindCall}, 0},
			"by target":                    {outbox.Choice{Target: "nowhere.0"}, 1},
			"by reason":                    {outbox.Choice{Reason: `subject "nowhere.3"`}, 1},
			"by two that fit":              {outbox.Choice{Key: key("p-2"), Target: "nowhere.2"}, 1},
			"by two of which one does not": {outbox.Choice{Key: key("p-2"), Target: "nowhere.1"}, 0},
		} {
			n := 0
			for item, err := range outbox.Parked(r.ctx, r.st, test.choice) {
				require.NoError(t, err)
				assert.NotEmpty(t, item.Reason)
				n++
			}
			assert.Equal(t, test.want, n, name)
		}
	})
}

func TestResumedRowsGoOutAndDiscardedOnesNeverDo(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		const n = 600 // more than one settlement takes
		r.parkMany(n)
		var d decided
		got, err := outbox.Discard(r.ctx, r.st, outbox.Choice{Target: "nowhere.5"}, "ordered by mistake", d.observer())
		require.NoError(t, err)
		assert.Equal(t, 1, got)
		_, err = r.js.CreateStream(r.ctx, streamOn("LATER", "nowhere.>"))
		require.NoError(t, err)
		got, err = outbox.Resume(r.ctx, r.st, outbox.Choice{}, "the stream is there", d.observer())
		require.NoError(t, err)
		assert.Equal(t, n-1, got)
		assert.Len(t, d.events, n)
		assert.Equal(t, "ordered by mistake", d.events["discarded "+key("p-5").EffectID(0)])
		assert.Equal(t, "the stream is there", d.events["resumed "+key("p-6").EffectID(0)])
		for item, err := range r.st.Scan(r.ctx, onefold.Query{What: onefold.WhatWaiting}) {
			require.NoError(t, err)
			assert.Equal(t, "the stream is there", item.Reason)
		}

		r.run(quick)
		r.await("settled", n-1)
		assert.Len(t, r.stored("LATER"), n-1)
		got, err = outbox.Resume(r.ctx, r.st, outbox.Choice{}, "again", nil)
		require.NoError(t, err)
		assert.Zero(t, got)
	})
}

func TestADecisionNeedsAStoreAndAReason(t *testing.T) {
	r := newRig(t)
	for _, decide := range []func(context.Context, onefold.Store, outbox.Choice, string, *onefold.Observer) (int, error){outbox.Resume, outbox.Discard} {
		_, err := decide(r.ctx, nil, outbox.Choice{}, "why", nil)
		require.ErrorIs(t, err, onefold.ErrInvalid)
		require.ErrorContains(t, err, "the store is nil; open one first")
		_, err = decide(r.ctx, r.st, outbox.Choice{}, " ", nil)
		require.ErrorIs(t, err, onefold.ErrInvalid)
		require.ErrorContains(t, err, "the reason is empty; say why")
	}
}

func TestACallThatMayHaveHappenedIsResumedOnlyByItsID(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		r.announced("a")
		var l ledger
		r.run(with(outbox.Function{Do: func(_ context.Context, c outbox.Call) error { l.note(c); return nil }}))
		r.await("parked", 1)
		n, err := outbox.Resume(r.ctx, r.st, outbox.Choice{Target: "f"}, "sweep", nil)
		require.NoError(t, err)
		assert.Zero(t, n)
		require.Len(t, r.parked(), 1)
		assert.True(t, r.parked()[0].Row.Tried)

		n, err = outbox.Resume(r.ctx, r.st, outbox.Choice{IDs: []string{key("a").EffectID(0)}}, "the bank says no", nil)
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		r.await("settled", 1)
		assert.Len(t, l.all(), 1)
	})
}

// overtaken lets somebody else discard a row first.
type overtaken struct {
	onefold.Store
	once sync.Once
}

func (s *overtaken) Settle(ctx context.Context, batch []onefold.Settlement) (err error) {
	s.once.Do(func() {
		err = s.Store.Settle(ctx, []onefold.Settlement{{Row: batch[0].Row, State: onefold.Discarded}})
	})
	if err != nil {
		return err
	}
	return s.Store.Settle(ctx, batch)
}

func TestARowThatSomebodyElseHasSettledIsNotCounted(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		r.parkMany(3)
		n, err := outbox.Resume(r.ctx, &overtaken{Store: r.st}, outbox.Choice{}, "go", nil)
		require.NoError(t, err)
		assert.Equal(t, 2, n)
	})
}

func TestTheBacklogTellsWhatWaitsAndWhatIsUnderWay(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		started, release := make(chan struct{}, 3), make(chan struct{})
		c := with(outbox.Function{Window: 2, Do: func(context.Context, outbox.Call) error {
			started <- struct{}{}
			<-release
			return nil
		}})
		c.JetStream, c.Observer, c.MaxAttempts = r.js, r.observer(), 1
		relay, err := outbox.NewRelay(r.st, c)
		require.NoError(t, err)
		for i := range 3 {
			r.call(fmt.Sprint(i), "f", false)
		}
		r.emit("poison", onefold.Effect{Target: "nowhere.a"})
		before, err := relay.Backlog(r.ctx)
		require.NoError(t, err)
		assert.Equal(t, outbox.StateNew, before.State)
		assert.EqualValues(t, 4, before.Waiting)
		assert.Negative(t, before.Asked)
		require.ErrorIs(t, before.Check(time.Hour), outbox.ErrBehind)

		ctx, cancel := context.WithCancel(r.ctx)
		done := make(chan error, 1)
		go func() { done <- relay.Run(ctx) }()
		<-started
		<-started
		r.await("parked", 1)
		during, err := relay.Backlog(r.ctx)
		require.NoError(t, err)
		assert.Positive(t, during.Oldest)
		assert.GreaterOrEqual(t, during.Asked, time.Duration(0))
		require.ErrorContains(t, during.Check(0), "the relay is running, 3 rows wait")
		require.NoError(t, during.Check(time.Hour))
		during.Oldest, during.Asked = 0, 0
		assert.Equal(t, outbox.Backlog{State: outbox.StateRunning, Waiting: 3, Parked: 1, Calling: 2, Held: 1}, during)

		close(release)
		r.await("settled", 3)
		cancel()
		require.NoError(t, <-done)
		after, err := relay.Backlog(r.ctx)
		require.NoError(t, err)
		assert.Equal(t, outbox.Backlog{State: outbox.StateStopped, Parked: 1, Asked: after.Asked}, after)
	})
}
