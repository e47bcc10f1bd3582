package dedupe_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

// A function may call another store, or another guard, whose errors say nothing of this claim.
func TestAnErrorOfTheFunctionIsNeverTakenForTheCommits(t *testing.T) {
	tests := []struct {
		name    string
		err     error
		counted bool
	}{
		{"unknown", onefold.ErrUnknown, false},
		{"lost", onefold.ErrLost, true},
		{"busy", onefold.ErrBusy, false},
		{"unavailable", onefold.ErrUnavailable, false},
		{"permanent unknown", onefold.Permanent(onefold.ErrUnknown), true},
		{"permanent lost", onefold.Permanent(onefold.ErrLost), true},
		{"permanent conflict", onefold.Permanent(fmt.Errorf("price: %w", onefold.ErrConflict)), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := openStore(t)
			g := newGuard(t, st)
			wrapped := fmt.Errorf("enqueue the mail: %w", tt.err)
			runs := 0
			result, err := g.Do(t.Context(), "p-1", noCheck, func(context.Context, *onefold.Effects) error {
				runs++
				return wrapped
			})
			assert.Equal(t, wrapped, err, "as it is")
			assert.Equal(t, dedupe.Result{}, result)
			assert.Equal(t, 1, runs)

			attempt := 0
			result, err = g.Do(t.Context(), "p-1", noCheck, func(_ context.Context, fx *onefold.Effects) error {
				attempt = fx.Attempt()
				return nil
			})
			require.NoError(t, err, "the key was given back")
			assert.True(t, result.Executed)
			assert.Equal(t, tt.counted, attempt == 2)
		})
	}
}

func TestAConflictThatTheFunctionMetRunsAgain(t *testing.T) {
	g := newGuard(t, openStore(t))
	runs := 0
	result, err := g.Do(t.Context(), "p-1", noCheck, func(context.Context, *onefold.Effects) error {
		if runs++; runs < 3 {
			return fmt.Errorf("read the balance: %w", onefold.ErrConflict)
		}
		return nil
	})
	require.NoError(t, err)
	assert.True(t, result.Executed)
	assert.Equal(t, 3, runs)
}

func TestAPanicWithAConflictDoesNotRunAgain(t *testing.T) {
	g := newGuard(t, openStore(t))
	runs := 0
	_, err := g.Do(t.Context(), "p-1", noCheck, func(context.Context, *onefold.Effects) error {
		runs++
		panic(onefold.ErrConflict)
	})
	var panicked *onefold.PanicError
	require.ErrorAs(t, err, &panicked)
	assert.Equal(t, 1, runs)
}

func TestAConflictStopsRunningAgainWhenTheCallerGoes(t *testing.T) {
	st := openStore(t)
	g := newGuard(t, st)
	ctx, hangUp := context.WithCancel(t.Context())
	runs := 0
	_, err := g.Do(ctx, "p-1", noCheck, func(context.Context, *onefold.Effects) error {
		runs++
		hangUp()
		return onefold.ErrConflict
	})
	require.ErrorIs(t, err, onefold.ErrConflict)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, runs)
	again, err := g.Do(t.Context(), "p-1", noCheck, answer(&runs, "x"))
	require.NoError(t, err, "the key was given back")
	assert.True(t, again.Executed)
}

func TestAnErrorOfTheCommitLeavesTheClaimOnlyIfItIsGoneOrInDoubt(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		second error
	}{
		"unknown keeps the claim": {onefold.ErrUnknown, onefold.ErrBusy},
		"too large gives it back": {onefold.ErrTooLarge, nil},
	} {
		t.Run(name, func(t *testing.T) {
			st := &double{Store: openStore(t)}
			g := newGuard(t, st)
			closed := false
			st.commit = func(context.Context, []*onefold.Commit) (bool, error) {
				if closed {
					return true, onefold.ErrClosed // ends the repeats with the doubt still there
				}
				closed = true
				return true, tt.err
			}
			_, err := g.Do(t.Context(), "p-1", noCheck, answer(new(int), "x"))
			require.ErrorIs(t, err, tt.err)
			st.commit = nil
			_, err = g.Do(t.Context(), "p-1", noCheck, answer(new(int), "x"))
			require.ErrorIs(t, err, tt.second)
		})
	}
}
