package boltstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// switched is a hook that fails while an error is set.
type switched struct{ err atomic.Pointer[error] }

func (s *switched) set(err error) {
	if err == nil {
		s.err.Store(nil)
		return
	}
	s.err.Store(&err)
}

func (s *switched) hook() error {
	if p := s.err.Load(); p != nil {
		return *p
	}
	return nil
}

func begin(t testing.TB, s *boltstore.Store, k onefold.Key) *onefold.Claim {
	t.Helper()
	g, err := s.Begin(context.Background(), request(k))
	require.NoError(t, err)
	require.Equal(t, onefold.Granted, g.Verdict)
	return g.Claim
}

var attempt atomic.Uint64

func request(k onefold.Key) onefold.Request {
	return onefold.Request{Key: k, Lease: time.Minute, Holder: onefold.Holder{Process: 1, Attempt: attempt.Add(1)}}
}

func one(c *onefold.Claim, e onefold.Entry) []*onefold.Commit {
	return []*onefold.Commit{{Claim: c, Entry: e}}
}

func TestWriteThatIsKnownToBeNotStoredCostsNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"disk full", syscall.ENOSPC, onefold.ErrFull},
		{"another error", errors.New("no such luck"), onefold.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := context.Background()
			var fault switched
			dir := t.TempDir()
			s := open(t, dir, boltstore.WithHooks(boltstore.Options{}, boltstore.Hooks{BeforeCommit: fault.hook}))
			commit(t, s, key("row"), onefold.Effect{ID: "1", Kind: "message", Target: "a"})
			f, err := s.Feed(ctx, time.Minute)
			require.NoError(t, err)
			rows, err := f.Next(ctx, 1)
			require.NoError(t, err)
			claim := begin(t, s, key("a"))

			fault.set(c.err)
			batch := one(claim, entry(key("a")))
			require.NoError(t, s.Commit(ctx, batch))
			require.ErrorIs(t, batch[0].Err, c.want)
			require.ErrorIs(t, batch[0].Err, c.err)
			durable := request(key("b"))
			durable.Durable = true
			_, err = s.Begin(ctx, durable)
			require.ErrorIs(t, err, c.want)
			require.ErrorIs(t, s.Settle(ctx, []onefold.Settlement{{Row: rows[0], State: onefold.Sent}}), onefold.ErrUnavailable)
			require.ErrorIs(t, s.Erase(ctx, key("row")), c.want)
			_, err = s.Lookup(ctx, key("a"))
			require.ErrorIs(t, err, onefold.ErrNotFound)
			g, err := s.Begin(ctx, request(key("a")))
			require.NoError(t, err)
			require.Equal(t, onefold.Busy, g.Verdict, "the claim is still held")

			fault.set(nil)
			require.NoError(t, s.Commit(ctx, batch))
			require.NoError(t, batch[0].Err)
			g, err = s.Begin(ctx, request(key("b")))
			require.NoError(t, err)
			assert.Equal(t, onefold.Granted, g.Verdict, "the claim whose start was not counted is withdrawn")
			assert.Zero(t, g.History.Starts)
			require.NoError(t, s.Settle(ctx, []onefold.Settlement{{Row: rows[0], State: onefold.Sent}}))
			require.NoError(t, s.Close(ctx))
			assert.NoFileExists(t, filepath.Join(dir, "CHECK"))
		})
	}
}

func TestFullFileRefusesAndKeepsWhatItHas(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	o := boltstore.WithHooks(boltstore.Options{MmapBytes: 1 << 20}, boltstore.Hooks{MaxFile: 2 << 20})
	s := open(t, dir, o)
	stored := 0
	for ; ; stored++ {
		k := key(fmt.Sprint(stored))
		claim := begin(t, s, k)
		e := entry(k)
		e.Result = make([]byte, 20<<10)
		batch := one(claim, e)
		require.NoError(t, s.Commit(ctx, batch))
		if batch[0].Err != nil {
			require.ErrorIs(t, batch[0].Err, onefold.ErrFull)
			require.NoError(t, s.Release(ctx, claim, onefold.Failure{}), "the claim is still held")
			break
		}
		require.Less(t, stored, 1000, "the file never got full")
	}
	require.Positive(t, stored)
	for i := range stored {
		_, err := s.Lookup(ctx, key(fmt.Sprint(i)))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close(ctx))
	s = open(t, dir, nil)
	for i := range stored {
		_, err := s.Lookup(ctx, key(fmt.Sprint(i)))
		require.NoError(t, err)
	}
	commit(t, s, key("with room again"))
}

func TestPanicWhileWritingStopsTheStoreAndNotTheProcess(t *testing.T) {
	ctx := context.Background()
	var on atomic.Bool
	o := boltstore.WithHooks(boltstore.Options{}, boltstore.Hooks{BeforeCommit: func() error {
		if on.Load() {
			panic("page 7: impossible")
		}
		return nil
	}})
	dir := t.TempDir()
	s := open(t, dir, o)
	claim := begin(t, s, key("a"))
	on.Store(true)
	batch := one(claim, entry(key("a")))
	require.NoError(t, s.Commit(ctx, batch))
	require.ErrorIs(t, batch[0].Err, onefold.ErrDamaged)
	require.ErrorContains(t, batch[0].Err, "page 7: impossible")
	_, err := s.Begin(ctx, request(key("b")))
	require.ErrorIs(t, err, onefold.ErrDamaged)
	require.NoError(t, s.Close(ctx))
}

func TestFileThatFailsItsCheckAfterAFailStopIsRefused(t *testing.T) {
	dir := made(t)
	write(t, filepath.Join(dir, "CHECK"), "a write failed")
	s := open(t, dir, nil)
	require.NoError(t, s.Close(context.Background()))
	require.NoFileExists(t, filepath.Join(dir, "CHECK"))

	write(t, filepath.Join(dir, "CHECK"), "a write failed")
	info, err := os.Stat(main(dir))
	require.NoError(t, err)
	overwrite(t, main(dir), 8<<10, make([]byte, info.Size()-8<<10))
	_, err = boltstore.Open(dir, nil)
	require.ErrorIs(t, err, onefold.ErrDamaged)
	require.FileExists(t, filepath.Join(dir, "CHECK"))
}
