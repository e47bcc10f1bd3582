package boltstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

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
