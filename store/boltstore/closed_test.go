package boltstore

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
)

// TestACallThatCloseOvertakesDoesNotTakeADoneKeyForFresh stands where Begin stands when it has been let in and
// Close has come to its end meanwhile.
func TestACallThatCloseOvertakesDoesNotTakeADoneKeyForFresh(t *testing.T) {
	s := opened(t, t.TempDir(), &Options{SegmentRecords: 1})
	require.NoError(t, stored(t, s, entryOf("a")))
	require.NoError(t, stored(t, s, entryOf("b")))
	s.keepUpNow()
	k := ofID("a")
	canon := canonOf(&k)
	hash := s.hash(canon)
	require.NoError(t, s.Close(context.Background()))
	st := s.stripe(hash)
	st.mu.Lock()
	defer st.mu.Unlock()
	_, _, err := s.find(st, hash, canon, nil)
	require.ErrorIs(t, err, onefold.ErrClosed)
	_, err = s.findSealed(hash, canon)
	require.ErrorIs(t, err, onefold.ErrClosed)
}

// TestCloseEndsAlthoughBboltHasKeptItsLocks stands where a panic within a commit with joins leaves the store.
func TestCloseEndsAlthoughBboltHasKeptItsLocks(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir, nil)
	require.NoError(t, stored(t, s, entryOf("a")))
	s.stop(onefold.ErrDamaged)
	<-s.kept
	s.queue.close()
	<-s.written
	_, err := s.db.Begin(true)
	require.NoError(t, err)
	s.locked = true
	require.NoError(t, s.Close(context.Background()))
	s = opened(t, dir, nil)
	require.ErrorIs(t, second(s.Lookup(context.Background(), ofID("b"))), onefold.ErrNotFound)
}

func second[T any](_ T, err error) error { return err }

// A panic before the commit is caught inside of bbolt's Update, which then rolls back.
func TestAPanicBeforeTheCommitOfAGroupWithJoinsKeepsNoLocks(t *testing.T) {
	o := &Options{}
	o.hooks.beforeCommit = func() error { panic("page 7: invalid type") }
	s, err := Open(t.TempDir(), o)
	require.NoError(t, err)
	e := entryOf("a")
	e.Joins = []onefold.Join{&join{func(*bolt.Tx) error { return nil }}}
	require.Error(t, stored(t, s, e))
	require.NotNil(t, s.stopped())
	tx, err := s.db.Begin(true) // does not wait
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	require.False(t, s.locked, "the mapping of main.db would stay for the life of the process")
	require.NoError(t, s.Close(context.Background()))
}
