package dedupe_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/store/memstore"
)

// waiting returns a guard whose duplicates wait, in a bubble of virtual time.
func waiting(t *testing.T, st onefold.Store, limit time.Duration) *dedupe.Guard {
	t.Helper()
	g, err := dedupe.NewGuard(st, dedupe.GuardOptions{Scope: "payments", Wait: limit})
	require.NoError(t, err)
	return g
}

// slow is a run that takes d and ends with err, or with the error of its context.
func slow(d time.Duration, result string, err error) func(context.Context, *onefold.Effects) error {
	return func(ctx context.Context, fx *onefold.Effects) error {
		fx.Result([]byte(result))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return err
		}
	}
}

func TestADuplicateWaitsForTheRunningOneAndGetsItsResult(t *testing.T) {
	tests := []struct {
		name      string
		sameGuard bool
		atMost    time.Duration // after the end of the first
	}{
		{"of the same guard, at once", true, 0},
		{"of another guard on the store, within a second", false, 2 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				first := waiting(t, st, dedupe.NoLimit)
				second := first
				if !tt.sameGuard {
					second = waiting(t, st, dedupe.NoLimit)
				}
				var others sync.WaitGroup
				others.Go(func() {
					result, err := first.Do(t.Context(), "p-1", noCheck, slow(2*time.Minute, "one", nil))
					assert.NoError(t, err)
					assert.True(t, result.Executed)
				})
				synctest.Wait()
				start := time.Now()
				for range 5 {
					others.Go(func() {
						result, err := second.Do(t.Context(), "p-1", noCheck, slow(0, "two", nil))
						assert.NoError(t, err)
						assert.False(t, result.Executed)
						assert.Equal(t, "one", string(result.Record.Result))
					})
				}
				others.Wait()
				assert.LessOrEqual(t, time.Since(start), 2*time.Minute+tt.atMost)
				require.NoError(t, st.Close(t.Context()))
			})
		})
	}
}

func TestOneOfThoseWhoWaitRunsWhenTheFirstHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		g := waiting(t, st, dedupe.NoLimit)
		broken := errors.New("broken")
		var others sync.WaitGroup
		others.Go(func() {
			_, err := g.Do(t.Context(), "p-1", noCheck, slow(time.Second, "", broken))
			assert.ErrorIs(t, err, broken)
		})
		synctest.Wait()
		var mu sync.Mutex
		executed := 0
		for range 5 {
			others.Go(func() {
				result, err := g.Do(t.Context(), "p-1", noCheck, slow(time.Second, "two", nil))
				assert.NoError(t, err)
				assert.Equal(t, "two", string(result.Record.Result))
				mu.Lock()
				defer mu.Unlock()
				if result.Executed {
					executed++
				}
			})
		}
		others.Wait()
		assert.Equal(t, 1, executed)
		require.NoError(t, st.Close(t.Context()))
	})
}

func TestWaitingIsBounded(t *testing.T) {
	tests := []struct {
		name          string
		limit         time.Duration
		patience      time.Duration // of the caller's context
		after         time.Duration
		contextsError bool
	}{
		{"not at all by default", 0, time.Hour, 0, false},
		{"by the option", 5 * time.Second, time.Hour, 5 * time.Second, false},
		{"by the context", dedupe.NoLimit, 7 * time.Second, 7 * time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				g := waiting(t, st, tt.limit)
				var first sync.WaitGroup
				first.Go(func() { _, _ = g.Do(context.WithoutCancel(t.Context()), "p-1", noCheck, slow(time.Minute, "one", nil)) })
				synctest.Wait()
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), tt.patience)
				defer cancel()
				_, err := g.Do(ctx, "p-1", noCheck, slow(0, "two", nil))
				require.ErrorIs(t, err, onefold.ErrBusy)
				var busy *dedupe.BusyError
				require.ErrorAs(t, err, &busy)
				assert.Positive(t, busy.RetryAfter)
				assert.Equal(t, tt.contextsError, errors.Is(err, context.DeadlineExceeded))
				assert.Equal(t, tt.after, time.Since(start))
				first.Wait()
				require.NoError(t, st.Close(t.Context()))
			})
		})
	}
}

func TestAWaitingDuplicateTakesOverFromADeadProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		g := waiting(t, st, dedupe.NoLimit)
		_, err := st.Begin(t.Context(), onefold.Request{Key: g.Key("p-1"), Lease: 20 * time.Second, Holder: onefold.Holder{Process: 1, Attempt: 1}})
		require.NoError(t, err)
		result, err := g.Do(t.Context(), "p-1", noCheck, slow(0, "mine", nil))
		require.NoError(t, err)
		assert.True(t, result.Executed)
		require.NoError(t, st.Close(t.Context()))
	})
}

func TestAnotherPayloadDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		g := waiting(t, st, dedupe.NoLimit)
		var first sync.WaitGroup
		first.Go(func() {
			_, _ = g.Do(t.Context(), "p-1", dedupe.BodyFingerprint("pay", []byte("5")), slow(time.Minute, "one", nil))
		})
		synctest.Wait()
		start := time.Now()
		_, err := g.Do(t.Context(), "p-1", dedupe.BodyFingerprint("pay", []byte("6")), slow(0, "two", nil))
		require.ErrorIs(t, err, onefold.ErrMismatch)
		assert.Zero(t, time.Since(start))
		first.Wait()
		require.NoError(t, st.Close(t.Context()))
	})
}
