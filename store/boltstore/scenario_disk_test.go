package boltstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

func TestScenario_B13_AWriteThatFailsAtItsEndIsUnknownAndStopsTheStore(t *testing.T) {
	ctx := context.Background()
	var fault switched
	dir := t.TempDir()
	s := open(t, dir, boltstore.WithHooks(boltstore.Options{}, boltstore.Hooks{AfterCommit: fault.hook}))
	commit(t, s, key("before"), onefold.Effect{ID: "1", Kind: "message", Target: "a"})
	f, err := s.Feed(ctx, time.Minute)
	require.NoError(t, err)
	claim, waiting := begin(t, s, key("a")), make(chan error, 1)
	go func() {
		_, err := s.Wait(ctx, key("before"))
		waiting <- err
	}()

	sync := errors.New("sync: input/output error")
	fault.set(sync)
	batch := one(claim, entry(key("a")))
	require.NoError(t, s.Commit(ctx, batch))
	require.ErrorIs(t, batch[0].Err, onefold.ErrUnknown)
	require.ErrorIs(t, batch[0].Err, sync)

	require.ErrorIs(t, s.Commit(ctx, batch), onefold.ErrDamaged)
	_, err = s.Begin(ctx, request(key("b")))
	require.ErrorIs(t, err, onefold.ErrDamaged)
	_, err = s.Lookup(ctx, key("a"))
	require.ErrorIs(t, err, onefold.ErrDamaged)
	_, err = s.Read(ctx, "t", "k")
	require.ErrorIs(t, err, onefold.ErrDamaged)
	_, err = f.Next(ctx, 1)
	require.ErrorIs(t, err, onefold.ErrDamaged)
	require.ErrorIs(t, <-waiting, onefold.ErrDamaged)
	require.ErrorIs(t, s.Renew(ctx, claim, time.Minute), onefold.ErrUnavailable)
	for _, err := range s.Scan(ctx, onefold.Query{What: onefold.WhatRecords}) {
		require.ErrorIs(t, err, onefold.ErrDamaged)
	}
	st, err := s.Stats(ctx)
	require.NoError(t, err)
	require.ErrorIs(t, st.Err, sync)
	require.FileExists(t, filepath.Join(dir, "CHECK"))
	require.NoError(t, s.Close(ctx))

	s = open(t, dir, nil)
	assert.NoFileExists(t, filepath.Join(dir, "CHECK"), "the file has been checked")
	assert.False(t, s.Info().Clean)
	_, err = s.Lookup(ctx, key("before"))
	assert.NoError(t, err)
}

func TestScenario_B14_OnAFullDiskClaimsAreRefusedUntilThereIsRoomAgain(t *testing.T) {
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

func TestScenario_B15_AMainFileThatIsReplacedWhileOpenStopsTheStore(t *testing.T) {
	s := newSealer(t)
	s.fill(50)
	path := filepath.Join(s.dir, "main.db")
	require.NoError(t, os.Rename(path, path+".away"))
	s.Sweep()
	s.LookAfterFile()
	_, err := s.Begin(context.Background(), request(key("x")))
	require.ErrorIs(t, err, onefold.ErrDamaged)
	require.NoError(t, s.Close(context.Background()))
	require.NoError(t, os.Rename(path+".away", path))
	s.open()
	s.holds(0, 50)
}

func TestScenario_B15_AMainFileThatIsCutShortWhileOpenIsDamageAndEndsNoProcess(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := open(t, dir, nil)
	for i := range 200 {
		commit(t, s, key(fmt.Sprint(i)))
	}
	require.NoError(t, os.Truncate(main(dir), int64(2*os.Getpagesize())))
	_, err := s.Lookup(ctx, key("7"))
	require.ErrorIs(t, err, onefold.ErrDamaged)
	require.ErrorIs(t, s.View(ctx, func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("onefold")).ForEach(func(_, _ []byte) error { return nil })
	}), onefold.ErrDamaged)
	batch := one(nil, entry(key("more")))
	require.NoError(t, s.Commit(ctx, batch))
	require.ErrorIs(t, batch[0].Err, onefold.ErrDamaged)
	_ = s.Close(ctx)
	_, err = boltstore.Open(dir, nil)
	require.ErrorIs(t, err, onefold.ErrDamaged)
}
