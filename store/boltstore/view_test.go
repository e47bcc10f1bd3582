package boltstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

func TestViewShowsNothingBeforeItIsDurable(t *testing.T) {
	ctx := context.Background()
	var syncing gate
	s := open(t, t.TempDir(), boltstore.WithHooks(boltstore.Options{}, boltstore.Hooks{
		AfterCommit: func() error { syncing.pass(); return nil },
	}))
	batch := one(nil, joining(t, "a", note("a")))
	require.NoError(t, s.Commit(ctx, batch))
	reached, release := syncing.hold()
	stored := make(chan error, 1)
	go func() {
		batch := one(nil, entry(key("b")))
		stored <- errors.Join(s.Commit(ctx, batch), batch[0].Err)
	}()
	<-reached // bbolt shows the transaction to new readers, and its sync goes on

	impatient, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	err := s.View(impatient, func(*bolt.Tx) error { t.Error("ran"); return nil })
	require.ErrorIs(t, err, context.DeadlineExceeded)

	seen := make(chan []string, 1)
	go func() { seen <- noted(t, s) }()
	release()
	assert.Equal(t, []string{"a"}, <-seen)
	require.NoError(t, <-stored)
}

func TestViewWaitingForASyncThatFailsGetsNothing(t *testing.T) {
	ctx := context.Background()
	var syncing gate
	var fault switched
	s := open(t, t.TempDir(), boltstore.WithHooks(boltstore.Options{}, boltstore.Hooks{
		AfterCommit: func() error { syncing.pass(); return fault.hook() },
	}))
	fault.set(errors.New("input/output error"))
	reached, release := syncing.hold()
	stored := make(chan error, 1)
	go func() {
		batch := one(nil, entry(key("a")))
		stored <- errors.Join(s.Commit(ctx, batch), batch[0].Err)
	}()
	<-reached
	seen := make(chan error, 1)
	go func() { seen <- s.View(ctx, func(*bolt.Tx) error { t.Error("ran"); return nil }) }()
	release()
	require.ErrorIs(t, <-stored, onefold.ErrUnknown)
	err := <-seen
	assert.True(t, errors.Is(err, onefold.ErrDamaged) || errors.Is(err, onefold.ErrUnavailable), "%v", err)
}

// viewed holds a View open until leave is called.
func viewed(t *testing.T, s *boltstore.Store) (leave func()) {
	t.Helper()
	inside, left, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.View(context.Background(), func(*bolt.Tx) error {
			close(inside)
			<-left
			return nil
		})
	}()
	<-inside
	return func() {
		t.Helper()
		close(left)
		require.NoError(t, <-ended)
	}
}

func TestViewLetsCommitsAndReadsGoOn(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir(), nil)
	leave := viewed(t, s)
	commit(t, s, key("a"))
	_, err := s.Lookup(ctx, key("a"))
	require.NoError(t, err)
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Close(short), context.DeadlineExceeded, "Close waits for it, and no longer than it may")
	leave()
	require.NoError(t, s.Close(ctx))
	require.ErrorIs(t, s.View(ctx, func(*bolt.Tx) error { return nil }), onefold.ErrClosed)
}

func TestWaysThatAViewCanEnd(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir(), nil)
	own := errors.New("own")
	require.ErrorIs(t, s.View(ctx, nil), onefold.ErrInvalid)
	require.Equal(t, own, s.View(ctx, func(*bolt.Tx) error { return own }))
	require.PanicsWithValue(t, own, func() { _ = s.View(ctx, func(*bolt.Tx) error { panic(own) }) }, "a panic of fn is its own")
	require.Panics(t, func() { _ = s.View(ctx, func(tx *bolt.Tx) error { return tx.Rollback() }) })
	err := s.View(ctx, func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("onefold")).Put([]byte("k"), nil)
	})
	require.Error(t, err, "it is for reading")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.View(ctx, func(*bolt.Tx) error { runtime.Goexit(); return nil })
	}()
	<-done
	commit(t, s, key("a"))
	require.NoError(t, s.Close(ctx), "none of them has left a transaction open")
}

func TestDamagedPageEndsAViewAndNotTheProcess(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := open(t, dir, nil)
	batch := one(nil, joining(t, "a", func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket(mine)
		for i := range 1000 {
			err = errors.Join(err, b.Put(fmt.Append(nil, "key of some length ", i), make([]byte, 100)))
		}
		return err
	}))
	require.NoError(t, s.Commit(ctx, batch))
	require.NoError(t, batch[0].Err)
	var root int64
	require.NoError(t, s.View(ctx, func(tx *bolt.Tx) error {
		root = int64(tx.Bucket(mine).Root()) * int64(os.Getpagesize())
		return nil
	}))
	overwrite(t, main(dir), root, make([]byte, 4096))
	err := s.View(ctx, func(tx *bolt.Tx) error {
		tx.Bucket(mine).Get([]byte("key of some length 5"))
		return nil
	})
	require.ErrorIs(t, err, onefold.ErrDamaged)
}
