package dedupe_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/store/memstore"
)

var noCheck onefold.Fingerprint

func openStore(t *testing.T) onefold.Store {
	t.Helper()
	st := memstore.New()
	t.Cleanup(func() { require.NoError(t, st.Close(context.Background())) })
	return st
}

func newGuard(t *testing.T, st onefold.Store) *dedupe.Guard {
	t.Helper()
	g, err := dedupe.NewGuard(st, dedupe.GuardOptions{Scope: "payments"})
	require.NoError(t, err)
	return g
}

// answer returns a function that sets a result and counts its runs.
func answer(runs *int, result string) func(context.Context, *onefold.Effects) error {
	return func(_ context.Context, fx *onefold.Effects) error {
		*runs++
		fx.Result([]byte(result))
		return nil
	}
}

func TestARepeatGetsTheStoredResultWithoutRunning(t *testing.T) {
	g := newGuard(t, openStore(t))
	runs := 0
	first, err := g.Do(t.Context(), "p-1", noCheck, answer(&runs, "one"))
	require.NoError(t, err)
	assert.True(t, first.Executed)
	assert.Equal(t, "one", string(first.Record.Result))

	again, err := g.Do(t.Context(), " p-1 ", noCheck, answer(&runs, "two"))
	require.NoError(t, err)
	assert.False(t, again.Executed)
	assert.Equal(t, "one", string(again.Record.Result))
	assert.Equal(t, 1, runs)
	assert.Equal(t, first.Record.Token, again.Record.Token)
	assert.Equal(t, onefold.Succeeded, again.Record.Outcome)
}

func TestEffectsAreCommittedWithTheMark(t *testing.T) {
	st := openStore(t)
	g := newGuard(t, st)
	result, err := g.Do(t.Context(), "p-1", noCheck, func(_ context.Context, fx *onefold.Effects) error {
		fx.Publish("charges.new", []byte("5"))
		fx.Put("balance", "anna", []byte("5"))
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, 1, result.Record.Unsettled)

	value, err := st.Read(t.Context(), "balance", "anna")
	require.NoError(t, err)
	assert.Equal(t, "5", string(value.Data))
	feed, err := st.Feed(t.Context(), time.Minute)
	require.NoError(t, err)
	rows, err := feed.Next(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	assert.Equal(t, g.Key("p-1").EffectID(0), rows[0].Effect.ID)
	require.NoError(t, feed.Close())
}

func TestARunningKeyIsBusy(t *testing.T) {
	g := newGuard(t, openStore(t))
	started, finish := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := g.Do(context.Background(), "p-1", noCheck, func(context.Context, *onefold.Effects) error {
			close(started)
			<-finish
			return nil
		})
		done <- err
	}()
	<-started
	_, err := g.Do(t.Context(), "p-1", noCheck, answer(new(int), "x"))
	require.ErrorIs(t, err, onefold.ErrBusy)
	var busy *dedupe.BusyError
	require.ErrorAs(t, err, &busy)
	assert.Equal(t, g.Key("p-1"), busy.Key)
	assert.Positive(t, busy.RetryAfter)
	assert.LessOrEqual(t, busy.RetryAfter, dedupe.DefaultLease)
	close(finish)
	require.NoError(t, <-done)
}

func TestAnotherPayloadUnderTheSameIDIsAMismatch(t *testing.T) {
	g := newGuard(t, openStore(t))
	five := dedupe.BodyFingerprint("pay", []byte("5"))
	six := dedupe.BodyFingerprint("pay", []byte("6"))
	_, err := g.Do(t.Context(), "p-1", five, answer(new(int), "x"))
	require.NoError(t, err)

	_, err = g.Do(t.Context(), "p-1", six, answer(new(int), "x"))
	require.ErrorIs(t, err, onefold.ErrMismatch)
	var mismatch *dedupe.MismatchError
	require.ErrorAs(t, err, &mismatch)
	assert.Equal(t, dedupe.MismatchError{Key: g.Key("p-1"), Stored: five, Given: six}, *mismatch)
	assert.Contains(t, err.Error(), five.String())
	assert.Contains(t, err.Error(), six.String())
}

func TestAFailedRunStoresNothingAndCanBeRepeated(t *testing.T) {
	broken := errors.New("card declined")
	tests := []struct {
		name  string
		fails func(*onefold.Effects) error
		check func(*testing.T, error)
	}{
		{"error", func(*onefold.Effects) error { return broken },
			func(t *testing.T, err error) { require.ErrorIs(t, err, broken) }},
		{"panic", func(*onefold.Effects) error { panic(broken) },
			func(t *testing.T, err error) {
				var p *onefold.PanicError
				require.ErrorAs(t, err, &p)
				require.ErrorIs(t, err, broken)
			}},
		{"effect that can never leave", func(fx *onefold.Effects) error { fx.Publish("no blanks", nil); return nil },
			func(t *testing.T, err error) {
				require.ErrorIs(t, err, onefold.ErrInvalid)
				assert.True(t, onefold.IsPermanent(err))
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := openStore(t)
			g := newGuard(t, st)
			result, err := g.Do(t.Context(), "p-1", noCheck, func(_ context.Context, fx *onefold.Effects) error {
				fx.Put("balance", "anna", []byte("5"))
				return tt.fails(fx)
			})
			tt.check(t, err)
			assert.Equal(t, dedupe.Result{}, result)
			value, err := st.Read(t.Context(), "balance", "anna")
			require.NoError(t, err)
			assert.Zero(t, value.Version)

			attempt := 0
			result, err = g.Do(t.Context(), "p-1", noCheck, func(_ context.Context, fx *onefold.Effects) error {
				attempt = fx.Attempt()
				return nil
			})
			require.NoError(t, err)
			assert.True(t, result.Executed)
			assert.Equal(t, 2, attempt, "the failure was counted")
		})
	}
}

func TestGoexitGivesTheKeyBackAndEndsTheGoroutine(t *testing.T) {
	st := openStore(t)
	g := newGuard(t, st)
	returned := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = g.Do(context.Background(), "p-1", noCheck, func(context.Context, *onefold.Effects) error {
			runtime.Goexit()
			return nil
		})
		returned = true
	}()
	<-done
	assert.False(t, returned)
	grant, err := st.Begin(t.Context(), onefold.Request{Key: g.Key("p-1"), Lease: time.Second, Holder: onefold.Holder{Process: 1, Attempt: 1}})
	require.NoError(t, err)
	assert.Equal(t, onefold.Granted, grant.Verdict)
	assert.Equal(t, 1, grant.History.Failures)
	assert.Equal(t, onefold.ErrGoexit.Error(), grant.History.LastReason)
}

func TestAConflictRunsAgainWithFreshEffectsOnTheSameClaim(t *testing.T) {
	st := openStore(t)
	g := newGuard(t, st)
	var tokens []uint64
	result, err := g.Do(t.Context(), "p-1", noCheck, func(ctx context.Context, fx *onefold.Effects) error {
		tokens = append(tokens, fx.Token())
		data, _, err := fx.Get(ctx, "balance", "anna")
		if err != nil {
			return err
		}
		if len(tokens) == 1 {
			moveState(t, st)
		}
		fx.Put("balance", "anna", append(data, '5'))
		fx.Result(data)
		return nil
	})
	require.NoError(t, err)
	require.Len(t, tokens, 2)
	assert.Equal(t, tokens[0], tokens[1])
	assert.Equal(t, "moved", string(result.Record.Result), "the second run saw the new state")
}

func moveState(t *testing.T, st onefold.Store) {
	t.Helper()
	c := &onefold.Commit{Entry: onefold.Entry{Writes: []onefold.Write{{Table: "balance", Key: "anna", Value: []byte("moved")}}}}
	require.NoError(t, st.Commit(t.Context(), []*onefold.Commit{c}))
	require.NoError(t, c.Err)
}

func TestEndlessConflictsAreBoundedAndNotCounted(t *testing.T) {
	st := &double{Store: openStore(t)}
	runs := 0
	st.commit = func(context.Context, []*onefold.Commit) (bool, error) { return true, onefold.ErrConflict }
	g := newGuard(t, st)
	_, err := g.Do(t.Context(), "p-1", noCheck, answer(&runs, "x"))
	require.ErrorIs(t, err, onefold.ErrConflict)
	assert.Equal(t, dedupe.DefaultConflictRuns+1, runs)

	st.commit = nil
	_, err = g.Do(t.Context(), "p-1", noCheck, func(_ context.Context, fx *onefold.Effects) error {
		assert.Equal(t, 1, fx.Attempt())
		return nil
	})
	require.NoError(t, err)
}

func TestTheLossOfAClaimAroundTheGuardStillGivesItsOwnKeyBack(t *testing.T) {
	st := openStore(t)
	g := newGuard(t, st)
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := g.Do(ctx, "p-1", noCheck, func(ctx context.Context, _ *onefold.Effects) error {
		cancel(onefold.ErrLost)
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, onefold.ErrLost)
	again, err := g.Do(t.Context(), "p-1", noCheck, answer(new(int), "x"))
	require.NoError(t, err)
	assert.True(t, again.Executed)
}
