package outbox

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheWindowWaitsForAQuarterAndTakesAllThatIsFree(t *testing.T) {
	w := newWindow(8)
	n, err := w.take(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 8, n)
	assert.Equal(t, 8, w.out())

	w.give(1)
	assert.Zero(t, w.tryTake(), "one of eight is too few")
	w.give(2)
	n, err = w.take(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, n)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.take(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestAWindowOfOneLetsOneRowOut(t *testing.T) {
	w := newWindow(1)
	n, err := w.take(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	assert.Zero(t, w.tryTake())
	w.give(1)
	assert.Equal(t, 1, w.tryTake())
}
