package memstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/memstore"
	"github.com/onefold-go/onefold/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate stops commits between acceptance and write while it is shut, or cuts the store off there.
type gate struct {
	data     *memstore.Data
	shut     atomic.Pointer[chan struct{}]
	accepted chan struct{}
	once     sync.Once
	crash    atomic.Bool
}

func (g *gate) pass() {
	if g.crash.CompareAndSwap(true, false) {
		g.data.Crash()
	}
	if open := g.shut.Load(); open != nil {
		g.once.Do(func() { close(g.accepted) })
		<-*open
	}
}

func (g *gate) hold(testing.TB) (<-chan struct{}, func()) {
	open := make(chan struct{})
	g.shut.Store(&open)
	return g.accepted, func() {
		g.shut.Store(nil)
		close(open)
	}
}

func instance(t testing.TB, clock onefold.Clock, maxRecords int) storetest.Instance {
	data := memstore.NewData(clock)
	g := &gate{data: data, accepted: make(chan struct{})}
	options := &memstore.Options{Clock: clock, MaxRecords: maxRecords, BeforeWrite: g.pass}
	open := func(t testing.TB) *memstore.Store {
		s, err := memstore.Open(data, options)
		require.NoError(t, err)
		return s
	}
	last := open(t)
	return storetest.Instance{
		Store: last,
		Reopen: func(t testing.TB, clean bool) onefold.Store {
			if clean {
				require.NoError(t, last.Close(context.Background()))
			} else {
				data.Crash()
			}
			last = open(t)
			return last
		},
		HoldCommits: g.hold,
		FailCommits: func(testing.TB) { g.crash.Store(true) },
		Another: func(testing.TB) (onefold.Store, error) {
			s, err := memstore.Open(data, options)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}
}

func TestMemstoreHoldsTheContract(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB, clock onefold.Clock) storetest.Instance {
			return instance(t, clock, 0)
		},
		Limited: instance,
	})
}

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, func(testing.TB) onefold.Store { return memstore.New() })
}

func TestDataIsOpenOnlyOnce(t *testing.T) {
	data := memstore.NewData(onefold.Clock{})
	first, err := memstore.Open(data, nil)
	require.NoError(t, err)
	_, err = memstore.Open(data, nil)
	require.ErrorIs(t, err, onefold.ErrInUse)

	require.NoError(t, first.Close(t.Context()))
	second, err := memstore.Open(data, nil)
	require.NoError(t, err, "closed")
	require.NoError(t, first.Close(t.Context()), "closing the former store again does not touch the present one")
	_, err = memstore.Open(data, nil)
	require.ErrorIs(t, err, onefold.ErrInUse)

	data.Crash()
	third, err := memstore.Open(data, nil)
	require.NoError(t, err, "cut off")
	assert.False(t, third.Info().Clean)
	_, err = second.Stats(t.Context())
	require.ErrorIs(t, err, onefold.ErrClosed)
	require.NoError(t, third.Close(t.Context()))
	data.Crash() // nothing is open
}

func TestNegativeOptionsAreRefused(t *testing.T) {
	for _, o := range []memstore.Options{{MaxRecords: -1}, {MaxEntry: -1}} {
		_, err := memstore.Open(memstore.NewData(onefold.Clock{}), &o)
		require.ErrorIs(t, err, onefold.ErrInvalid)
	}
}

func TestInfoTellsWhatTheStoreIs(t *testing.T) {
	s := memstore.New()
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	info := s.Info()
	assert.Equal(t, "memory", info.Kind)
	assert.True(t, info.OneProcess && info.OneFeed && info.Ordered && info.Timers && info.Clean)
	assert.False(t, info.Durable)
	assert.Equal(t, onefold.ExpiryStore, info.Expiry)
	assert.Equal(t, onefold.DefaultMaxEntry, info.MaxEntry)
	assert.EqualValues(t, 1, info.Epoch)
}

// ownJoin claims to be made for this store, which has none.
type ownJoin struct{}

func (ownJoin) StoreKind() string { return "memory" }

func TestAJoinIsRefusedWhateverItIsFor(t *testing.T) {
	s := memstore.New()
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	one := &onefold.Commit{Entry: onefold.Entry{
		Key: work, Outcome: onefold.Succeeded, Retain: time.Hour, Joins: []onefold.Join{ownJoin{}},
	}}
	require.NoError(t, s.Commit(t.Context(), []*onefold.Commit{one}))
	require.ErrorIs(t, one.Err, onefold.ErrUnsupported)
}
