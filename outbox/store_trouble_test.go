package outbox_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
)

// troubled is a real store that answers with errors first.
type troubled struct {
	onefold.Store
	feeds, nexts, settles errorQueue
}

// errorQueue gives out errors in order, then nil.
type errorQueue struct {
	errs []error
	next atomic.Int64
}

func (q *errorQueue) take() error {
	if i := int(q.next.Add(1)) - 1; i < len(q.errs) {
		return q.errs[i]
	}
	return nil
}

func (s *troubled) Feed(ctx context.Context, lease time.Duration) (onefold.Feed, error) {
	if err := s.feeds.take(); err != nil {
		return nil, err
	}
	feed, err := s.Store.Feed(ctx, lease)
	return &troubledFeed{feed, s}, err
}

func (s *troubled) Settle(ctx context.Context, batch []onefold.Settlement) error {
	if err := s.settles.take(); err != nil {
		return err
	}
	return s.Store.Settle(ctx, batch)
}

type troubledFeed struct {
	onefold.Feed
	store *troubled
}

func (f *troubledFeed) Next(ctx context.Context, n int) ([]onefold.Row, error) {
	if err := f.store.nexts.take(); err != nil {
		return nil, err
	}
	return f.Feed.Next(ctx, n)
}

func TestARelaySurvivesStoreTrouble(t *testing.T) {
	for name, st := range map[string]*troubled{
		"feed busy":          {feeds: errorQueue{errs: []error{onefold.ErrBusy, onefold.ErrBusy}}},
		"feed unavailable":   {feeds: errorQueue{errs: []error{onefold.ErrUnavailable}}},
		"next unavailable":   {nexts: errorQueue{errs: []error{onefold.ErrUnavailable, onefold.ErrUnavailable}}},
		"feed lost":          {nexts: errorQueue{errs: []error{onefold.ErrLost, onefold.ErrLost}}},
		"settle unknown":     {settles: errorQueue{errs: []error{onefold.ErrUnknown, onefold.ErrUnknown}}},
		"settle full":        {settles: errorQueue{errs: []error{onefold.ErrFull}}},
		"settle unavailable": {settles: errorQueue{errs: []error{onefold.ErrUnavailable}}},
		"settle lost":        {settles: errorQueue{errs: []error{onefold.ErrLost}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			st.Store = r.st
			r.st = st
			r.emitMany("m", 5, "out.a")
			stop := r.run(outbox.Config{})
			r.await("settled", 5)
			require.NoError(t, stop())
			r.requireEachOnce("m", 5)
		})
	}
}

func TestTheRelayRunsAgainWhenASettlementThatFailedIsRecorded(t *testing.T) {
	for name, err := range map[string]error{"unavailable": onefold.ErrUnavailable, "unknown": onefold.ErrUnknown, "full": onefold.ErrFull} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.st = &troubled{Store: r.st, settles: errorQueue{errs: []error{err, err, err}}}
			r.run(outbox.Config{})
			started := r.await("state running", 1)[0].state
			assert.Equal(t, outbox.StateNew, started.From)
			r.emit("a", onefold.Effect{Target: "out.a"}) // and no further row
			waits := r.await("state waiting", 1)[0].state
			assert.Equal(t, outbox.StateRunning, waits.From)
			require.ErrorIs(t, waits.Err, err)
			assert.Equal(t, outbox.StateWaiting, r.await("state running", 2)[1].state.From)
			r.await("settled", 1)
			assert.Len(t, r.events("state waiting"), 1)
		})
	}
}

// fullStore has no room for rows that stay.
type fullStore struct {
	onefold.Store
	room atomic.Bool
}

func (s *fullStore) Settle(ctx context.Context, batch []onefold.Settlement) error {
	for _, one := range batch {
		if one.State != onefold.Sent && !s.room.Load() {
			return onefold.ErrFull
		}
	}
	return s.Store.Settle(ctx, batch)
}

func TestAFullStoreStillEndsSentRows(t *testing.T) {
	r := newRig(t)
	st := &fullStore{Store: r.st}
	r.st = st
	r.emit("poison", onefold.Effect{Target: "nowhere.a"})
	r.emitMany("m", 50, "out.a")
	r.run(outbox.Config{MaxAttempts: 1, Window: 4})
	r.await("settled", 50)
	assert.Empty(t, r.events("parked"))
	r.await("state waiting", 1)
	assert.Len(t, r.events("state running"), 1, "as long as something is owed")
	st.room.Store(true)
	r.await("parked", 1)
	r.await("state running", 2)
}

func TestAFatalStoreErrorEndsTheRelay(t *testing.T) {
	for name, st := range map[string]*troubled{
		"feed":   {feeds: errorQueue{errs: []error{onefold.ErrDamaged}}},
		"next":   {nexts: errorQueue{errs: []error{onefold.ErrDamaged}}},
		"settle": {settles: errorQueue{errs: []error{onefold.ErrDamaged}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			st.Store = r.st
			r.st = st
			r.emitMany("m", 5, "out.a")
			relay, err := outbox.NewRelay(st, outbox.Config{JetStream: r.js})
			require.NoError(t, err)
			require.ErrorIs(t, relay.Run(r.ctx), onefold.ErrDamaged)
		})
	}
}

func TestScenario_O01_ACrashBetweenPublishAndSettleSendsTheSameIDAgain(t *testing.T) {
	r := newRig(t)
	r.st = &troubled{Store: r.st, settles: errorQueue{errs: []error{onefold.ErrDamaged}}}
	r.emitMany("m", 5, "out.a")
	relay, err := outbox.NewRelay(r.st, outbox.Config{JetStream: r.js, Window: 5, Observer: r.observer()})
	require.NoError(t, err)
	require.ErrorIs(t, relay.Run(r.ctx), onefold.ErrDamaged)
	require.NotEmpty(t, r.events("published"))
	require.Empty(t, r.events("settled"))

	r.run(outbox.Config{})
	again := 0
	for _, e := range r.await("settled", 5) {
		if e.row.Duplicate {
			again++
			assert.Equal(t, 2, e.row.Attempt)
		}
	}
	assert.Positive(t, again)
	r.requireEachOnce("m", 5)
	assert.Len(t, r.stored("OUT"), 5)
}

func TestScenario_J09_TheDuplicateAnswerEndsTheRow(t *testing.T) {
	r := newRig(t)
	sentBefore := natsMessage("out.a", key("a").EffectID(0))
	_, err := r.js.PublishMsg(r.ctx, sentBefore)
	require.NoError(t, err)
	r.run(outbox.Config{MaxAttempts: 1})
	r.emit("a", onefold.Effect{Target: "out.a"})
	settled := r.await("settled", 1)[0].row
	assert.True(t, settled.Duplicate)
	assert.EqualValues(t, 1, settled.Sequence)
	stats, err := r.st.Stats(r.ctx)
	require.NoError(t, err)
	assert.Zero(t, stats.Waiting+stats.Parked)
}
