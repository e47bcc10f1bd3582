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

// Every restart of the suite goes on with a copy: one made while the store is open instead of closing it, and one of
// what a crash has left.
func TestACopyHoldsTheContractAsTheDataDoes(t *testing.T) {
	open := func(t testing.TB, clock onefold.Clock, maxRecords int) storetest.Instance {
		data := memstore.NewData(clock)
		options := &memstore.Options{Clock: clock, MaxRecords: maxRecords}
		openIt := func(t testing.TB) *memstore.Store {
			s, err := memstore.Open(data, options)
			require.NoError(t, err)
			return s
		}
		last := openIt(t)
		return storetest.Instance{Store: last, Reopen: func(t testing.TB, clean bool) onefold.Store {
			before := data
			if clean {
				data = before.Clone()
			}
			before.Crash()
			if !clean {
				data = before.Clone()
			}
			last = openIt(t)
			return last
		}}
	}
	storetest.Run(t, storetest.Harness{
		Open:    func(t testing.TB, clock onefold.Clock) storetest.Instance { return open(t, clock, 0) },
		Limited: open,
	})
}

func TestACopyAndItsOriginalGoOnApart(t *testing.T) {
	ctx := t.Context()
	data := memstore.NewData(onefold.Clock{})
	openIt := func(d *memstore.Data) *memstore.Store {
		s, err := memstore.Open(d, nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
		return s
	}
	commit := func(s *memstore.Store, e onefold.Entry) {
		one := &onefold.Commit{Entry: e}
		require.NoError(t, s.Commit(ctx, []*onefold.Commit{one}))
		require.NoError(t, one.Err)
	}
	put := func(s *memstore.Store, value string) {
		commit(s, onefold.Entry{Writes: []onefold.Write{{Table: "t", Key: "k", Value: []byte(value)}}})
	}
	original := openIt(data)
	put(original, "past")
	commit(original, onefold.Entry{Key: work, Outcome: onefold.DeadLettered, Retain: time.Hour, Effects: []onefold.Effect{
		{ID: work.EffectID(0), Kind: onefold.KindMessage, Target: "out"},
	}})
	copied := openIt(data.Clone())
	assert.Equal(t, original.Info().ID, copied.Info().ID)
	assert.True(t, copied.Info().Clean)

	put(copied, "here")
	feed, err := copied.Feed(ctx, time.Minute)
	require.NoError(t, err)
	rows, err := feed.Next(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, copied.Settle(ctx, []onefold.Settlement{{Row: rows[0], State: onefold.Sent}}))
	require.NoError(t, copied.Erase(ctx, work))

	for name, c := range map[string]struct {
		store     *memstore.Store
		value     string
		unsettled int
		waiting   uint64
		attention uint64
	}{
		"original": {original, "past", 1, 1, 1},
		"copy":     {copied, "here", 0, 0, 0},
	} {
		v, err := c.store.Read(ctx, "t", "k")
		require.NoError(t, err)
		assert.Equal(t, c.value, string(v.Data), name)
		r, err := c.store.Lookup(ctx, work)
		require.NoError(t, err)
		assert.Equal(t, c.unsettled, r.Unsettled, name)
		stats, err := c.store.Stats(ctx)
		require.NoError(t, err)
		assert.Equal(t, c.waiting, stats.Waiting, name)
		assert.Equal(t, c.attention, stats.Attention, name)
	}
}
