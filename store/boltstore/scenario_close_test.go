package boltstore_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

func TestScenario_B21_CloseWaitsNoLongerThanItMayAndCallsAfterItAreRefused(t *testing.T) {
	ctx := context.Background()
	var writing gate
	s := open(t, t.TempDir(), boltstore.WithHooks(boltstore.Options{}, boltstore.Hooks{BeforeWrite: writing.pass}))
	commit(t, s, key("a"))
	reached, release := writing.hold()
	stored := make(chan error, 1)
	go func() {
		batch := one(nil, entry(key("b")))
		stored <- errors.Join(s.Commit(ctx, batch), batch[0].Err)
	}()
	<-reached
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Close(short), context.DeadlineExceeded)
	refused := func() {
		t.Helper()
		_, err := s.Begin(ctx, request(key("c")))
		require.ErrorIs(t, err, onefold.ErrClosed)
		_, err = s.Lookup(ctx, key("a"))
		require.ErrorIs(t, err, onefold.ErrClosed)
		require.ErrorIs(t, s.View(ctx, func(*bolt.Tx) error { return nil }), onefold.ErrClosed)
		require.ErrorIs(t, s.Backup(ctx, io.Discard), onefold.ErrClosed)
	}
	refused()
	release()
	require.NoError(t, <-stored, "what was accepted gets its outcome")
	require.NoError(t, s.Close(ctx))
	require.NoError(t, s.Close(ctx))
	refused()
	assert.Positive(t, s.Storage().MainBytes)
}
