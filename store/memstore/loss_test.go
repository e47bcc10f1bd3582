package memstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/memstore"
	"github.com/onefold-go/onefold/store/storetest"
)

var work = onefold.Key{Scope: "ORDERS/billing", ID: "order-1"}

func claim(t *testing.T, s onefold.Store, attempt uint64) onefold.Grant {
	t.Helper()
	g, err := s.Begin(t.Context(), onefold.Request{
		Key: work, Lease: time.Minute, Holder: onefold.Holder{Process: 1, Attempt: attempt},
	})
	require.NoError(t, err)
	require.Equal(t, onefold.Granted, g.Verdict)
	return g
}

func TestACommitThatIsCutOffStoresNothing(t *testing.T) {
	data := memstore.NewData(onefold.Clock{})
	s, err := memstore.Open(data, &memstore.Options{BeforeWrite: data.Crash})
	require.NoError(t, err)
	one := &onefold.Commit{Claim: claim(t, s, 1).Claim, Entry: onefold.Entry{
		Key: work, Outcome: onefold.Succeeded, Retain: time.Hour,
	}}
	require.ErrorIs(t, s.Commit(t.Context(), []*onefold.Commit{one}), onefold.ErrClosed)

	again, err := memstore.Open(data, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, again.Close(context.Background())) })
	_, err = again.Lookup(t.Context(), work)
	require.ErrorIs(t, err, onefold.ErrNotFound)
	claim(t, again, 2)
}

func TestHistoryOfAKeyThatNeverEndsIsForgottenInTheEnd(t *testing.T) {
	clock := storetest.NewClock()
	s, err := memstore.Open(memstore.NewData(clock.Clock()), &memstore.Options{Clock: clock.Clock()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	fail := func(attempt uint64) int {
		g := claim(t, s, attempt)
		require.NoError(t, s.Release(t.Context(), g.Claim, onefold.Failure{Reason: "no", Counted: true}))
		return g.History.Failures
	}
	assert.Equal(t, 0, fail(1))
	clock.Advance(23 * time.Hour)
	assert.Equal(t, 1, fail(2))
	clock.Advance(23 * time.Hour)
	assert.Equal(t, 2, fail(3), "kept for a day after the last failure")
	clock.Advance(25 * time.Hour)
	assert.Equal(t, 0, fail(4))
}
