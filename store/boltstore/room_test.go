package boltstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

func TestOnAFullDiskClaimsAreRefusedUntilThereIsRoomAgain(t *testing.T) {
	ctx := context.Background()
	var commits atomic.Int64
	s := open(t, t.TempDir(), boltstore.WithHooks(boltstore.Options{}, boltstore.Hooks{
		MaxFile: 4 << 20, ProbeEvery: time.Millisecond, BeforeCommit: func() error { commits.Add(1); return nil },
	}))
	commit(t, s, key("row"), onefold.Effect{ID: "1", Kind: "message", Target: "a"})
	f, err := s.Feed(ctx, time.Minute)
	require.NoError(t, err)
	rows, err := f.Next(ctx, 1)
	require.NoError(t, err)
	held := begin(t, s, key("held"))
	fill(t, s, func() {})

	tried := commits.Load()
	for i := range 100 { // for many turns of the probe
		_, err := s.Begin(ctx, request(key(fmt.Sprint("fresh ", i))))
		require.ErrorIs(t, err, onefold.ErrFull)
		require.ErrorContains(t, err, "no space")
	}
	st, err := s.Stats(ctx)
	require.NoError(t, err)
	require.ErrorContains(t, st.Err, "no space")
	assert.Equal(t, tried, commits.Load(), "nothing is committed to find out")
	g, err := s.Begin(ctx, request(key("row")))
	require.NoError(t, err)
	assert.Equal(t, onefold.Done, g.Verdict)
	require.NoError(t, s.Renew(ctx, held, time.Minute))
	require.NoError(t, s.Settle(ctx, []onefold.Settlement{{Row: rows[0], State: onefold.Sent}}), "what frees goes on")
	_, err = s.Begin(ctx, request(key("fresh")))
	require.ErrorIs(t, err, onefold.ErrFull, "what frees does not say that there is room")

	s.SetMaxFile(64 << 20)
	require.Eventually(t, func() bool {
		g, err := s.Begin(ctx, request(key("fresh")))
		return err == nil && g.Verdict == onefold.Granted
	}, time.Minute, time.Millisecond)
	st, err = s.Stats(ctx)
	require.NoError(t, err)
	require.NoError(t, st.Err)
	batch := one(held, entry(key("held")))
	require.NoError(t, s.Commit(ctx, batch))
	require.NoError(t, batch[0].Err)
}

func TestCommitOfAHeldClaimThatFindsRoomLetsClaimsInAgain(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir(), boltstore.WithHooks(boltstore.Options{}, boltstore.Hooks{MaxFile: 4 << 20, ProbeEvery: time.Hour}))
	held := begin(t, s, key("held"))
	fill(t, s, func() {})
	_, err := s.Begin(ctx, request(key("fresh")))
	require.ErrorIs(t, err, onefold.ErrFull)
	s.SetMaxFile(64 << 20)
	_, err = s.Begin(ctx, request(key("fresh")))
	require.ErrorIs(t, err, onefold.ErrFull, "nobody has looked yet")
	batch := one(held, entry(key("held")))
	require.NoError(t, s.Commit(ctx, batch))
	require.NoError(t, batch[0].Err)
	begin(t, s, key("fresh"))
}
