package dedupe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/store/memstore"
)

func TestALongRunKeepsItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const renewals = 30
		st := &double{Store: memstore.New()}
		long := make(chan struct{})
		st.renew = func() error {
			if st.renews.Load() == renewals {
				close(long)
			}
			return nil
		}
		g := newGuard(t, st)
		result, err := g.Do(t.Context(), "p-1", noCheck, func(ctx context.Context, fx *onefold.Effects) error {
			start := time.Now()
			<-long
			assert.InDelta(t, renewals*dedupe.DefaultLease/3, time.Since(start), float64(time.Second), "every third of the lease")
			fx.Result([]byte("slow"))
			return ctx.Err()
		})
		require.NoError(t, err)
		assert.True(t, result.Executed)
		require.NoError(t, st.Close(t.Context()))
	})
}

func TestALostClaimEndsTheRunsContext(t *testing.T) {
	for name, renew := range map[string]error{"lost": onefold.ErrLost, "unavailable for a whole lease": onefold.ErrUnavailable} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &double{Store: memstore.New(), renew: func() error { return renew }}
				g := newGuard(t, st)
				_, err := g.Do(t.Context(), "p-1", noCheck, func(ctx context.Context, _ *onefold.Effects) error {
					<-ctx.Done()
					assert.Equal(t, onefold.ErrLost, context.Cause(ctx))
					return ctx.Err()
				})
				require.ErrorIs(t, err, onefold.ErrLost)
				require.ErrorIs(t, err, context.Canceled)
				require.NoError(t, st.Close(t.Context()))
			})
		})
	}
}

func TestTheCommitGoesOnAfterTheCallerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &double{Store: memstore.New()}
		g, err := dedupe.NewGuard(st, dedupe.GuardOptions{Scope: "payments", Lease: 3 * time.Second, CommitTimeout: 10 * time.Second})
		require.NoError(t, err)
		renewed := make(chan struct{}, 100)
		st.renew = func() error { renewed <- struct{}{}; return nil }
		ctx, hangUp := context.WithCancel(t.Context())
		st.commit = func(ctx context.Context, _ []*onefold.Commit) (bool, error) {
			hangUp()
			for range 9 { // seconds
				<-renewed
			}
			return false, ctx.Err()
		}
		result, err := g.Do(ctx, "p-1", noCheck, answer(new(int), "one"))
		require.NoError(t, err)
		assert.True(t, result.Executed)
		_, err = st.Lookup(t.Context(), g.Key("p-1"))
		require.NoError(t, err)
		require.NoError(t, st.Close(t.Context()))
	})
}

func TestAnUnknownCommitIsRepeatedUntilItIsKnown(t *testing.T) {
	tests := []struct {
		name    string
		answers []error // of tries; a nil answer lets the store decide
		stores  bool    // the first try stores in spite of its answer
		want    error
	}{
		{"stored", []error{onefold.ErrUnknown, onefold.ErrUnknown, nil}, true, nil},
		{"not stored", []error{onefold.ErrUnknown, nil}, false, nil},
		{"a try that did nothing answers nothing", []error{onefold.ErrUnknown, onefold.ErrUnavailable, onefold.ErrFull, nil}, true, nil},
		{"refused in the end", []error{onefold.ErrUnknown, onefold.ErrTooLarge}, false, onefold.ErrTooLarge},
		{"unavailable at once", []error{onefold.ErrUnavailable}, false, onefold.ErrUnavailable},
		{"closed with a doubt", []error{onefold.ErrUnknown, onefold.ErrClosed}, false, onefold.ErrUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &double{Store: memstore.New()}
				tries := 0
				st.commit = func(ctx context.Context, batch []*onefold.Commit) (bool, error) {
					tries++
					if tries == 1 && tt.stores {
						assert.NoError(t, st.Store.Commit(ctx, batch))
					}
					if err := tt.answers[tries-1]; err != nil {
						return true, err
					}
					return false, nil
				}
				runs := 0
				result, err := newGuard(t, st).Do(t.Context(), "p-1", noCheck, answer(&runs, "one"))
				require.ErrorIs(t, err, tt.want)
				assert.Len(t, tt.answers, tries)
				assert.Equal(t, 1, runs)
				assert.Equal(t, tt.want == nil, result.Executed)
				if tt.want == nil {
					assert.Equal(t, "one", string(result.Record.Result))
				}
				require.NoError(t, st.Close(t.Context()))
			})
		})
	}
}

func TestAnUnresolvedCommitIsToldAfterTheCallerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &double{Store: memstore.New()}
		st.commit = func(context.Context, []*onefold.Commit) (bool, error) { return true, onefold.ErrUnknown }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err := newGuard(t, st).Do(ctx, "p-1", noCheck, answer(new(int), "one"))
		require.ErrorIs(t, err, onefold.ErrUnknown)
		assert.Equal(t, time.Minute+dedupe.DefaultCommitTimeout, time.Since(start))
		require.NoError(t, st.Close(t.Context()))
	})
}
