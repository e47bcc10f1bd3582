package dedupe_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/memstore"
)

// onEachStore runs test on an empty store of each kind.
func onEachStore(t *testing.T, test func(t *testing.T, st onefold.Store)) {
	t.Run("memstore", func(t *testing.T) { test(t, openStore(t)) })
	t.Run("boltstore", func(t *testing.T) {
		st, err := boltstore.Open(t.TempDir(), nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close(context.Background())) })
		test(t, st)
	})
}

// unsent are the IDs of all effects that have not left.
func unsent(t *testing.T, st onefold.Store) (ids []string) {
	t.Helper()
	for item, err := range st.Scan(t.Context(), onefold.Query{What: onefold.WhatWaiting}) {
		require.NoError(t, err)
		ids = append(ids, item.Row.Effect.ID)
	}
	return ids
}

func TestScenario_D22_OfTwoWorkersOfOneKeyOneCommitsAndWithClaimsOneRuns(t *testing.T) {
	const workers = 2
	t.Run("with claims", func(t *testing.T) {
		onEachStore(t, func(t *testing.T, st onefold.Store) {
			var runs, executed atomic.Int64
			together(workers, func() {
				g, err := dedupe.NewGuard(st, dedupe.GuardOptions{Scope: "payments", Wait: dedupe.NoLimit})
				if !assert.NoError(t, err) {
					return
				}
				result, err := g.Do(t.Context(), "p-1", noCheck, func(_ context.Context, fx *onefold.Effects) error {
					runs.Add(1)
					fx.Publish("charges.create", "p-1")
					return nil
				})
				assert.NoError(t, err)
				if result.Executed {
					executed.Add(1)
				}
			})
			assert.EqualValues(t, 1, runs.Load())
			assert.EqualValues(t, 1, executed.Load())
			assert.Len(t, unsent(t, st), 1)
		})
	})
	t.Run("without claims", func(t *testing.T) {
		onEachStore(t, func(t *testing.T, st onefold.Store) {
			key := onefold.Key{Scope: "payments", ID: "p-1"}
			commits := make(chan *onefold.Commit, workers)
			together(workers, func() { // both have done the work by the time they commit
				c := &onefold.Commit{Entry: onefold.Entry{
					Key: key, Outcome: onefold.Succeeded, Retain: time.Hour, Writes: []onefold.Write{{Table: "paid", Key: "p-1", Value: []byte("x")}},
					Effects: []onefold.Effect{{ID: key.EffectID(0), Kind: onefold.KindMessage, Target: "charges.create"}},
				}}
				assert.NoError(t, st.Commit(t.Context(), []*onefold.Commit{c}))
				commits <- c
			})
			stored := 0
			for range workers {
				c := <-commits
				require.NoError(t, c.Err)
				if c.Existing == nil {
					stored++
				}
			}
			assert.Equal(t, 1, stored, "the other one is told that it was stored before")
			assert.Equal(t, []string{key.EffectID(0)}, unsent(t, st))
		})
	})
}

// together runs f in n goroutines that start at the same moment, and waits for them.
func together(n int, f func()) {
	start := make(chan struct{})
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			<-start
			f()
		})
	}
	close(start)
	all.Wait()
}

func TestScenario_D29_AFailedRunLeavesItsKeyFreeAndAnEmptyKeyIsRefused(t *testing.T) {
	onEachStore(t, func(t *testing.T, st onefold.Store) {
		g := newGuard(t, st)
		_, err := g.Do(t.Context(), "", noCheck, func(context.Context, *onefold.Effects) error { return nil })
		require.ErrorIs(t, err, dedupe.ErrMissingID)
		_, err = g.Do(t.Context(), "p-1", noCheck, func(context.Context, *onefold.Effects) error { return assert.AnError })
		require.ErrorIs(t, err, assert.AnError)
		runs := 0
		for _, id := range []string{"p-2", "p-1"} { // others, and the same again
			result, err := g.Do(t.Context(), id, noCheck, answer(&runs, id))
			require.NoError(t, err)
			assert.True(t, result.Executed, id)
		}
		assert.Equal(t, 2, runs)
		_, err = dedupe.NewGuard(memstore.New(), dedupe.GuardOptions{})
		require.ErrorIs(t, err, onefold.ErrInvalid, "no scope that all would share")
	})
}
