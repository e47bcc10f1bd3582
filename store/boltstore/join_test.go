package boltstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

var mine = []byte("mine")

// joining is an entry with one message and joins.
func joining(t testing.TB, id string, joins ...func(tx *bolt.Tx) error) onefold.Entry {
	t.Helper()
	fx := onefold.NewEffects(onefold.RunInfo{Key: key(id), StoreKind: boltstore.Kind}, nil)
	fx.Publish("a", []byte(id))
	for _, fn := range joins {
		require.NoError(t, boltstore.Tx(fx, fn))
	}
	e, err := fx.Seal()
	require.NoError(t, err)
	e.Outcome, e.Retain = onefold.Succeeded, time.Hour
	return e
}

// note writes name into the test's own bucket.
func note(name string) func(tx *bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(mine)
		if err != nil {
			return err
		}
		n, _ := b.NextSequence()
		return b.Put([]byte(name), fmt.Append(nil, n))
	}
}

// noted returns what note has written, in the order of writing.
func noted(t testing.TB, s *boltstore.Store) (names []string) {
	t.Helper()
	require.NoError(t, s.View(context.Background(), func(tx *bolt.Tx) error {
		b := tx.Bucket(mine)
		if b == nil {
			return nil
		}
		at := map[string]string{}
		if err := b.ForEach(func(k, v []byte) error { at[string(v)] = string(k); return nil }); err != nil {
			return err
		}
		for i := 1; i <= int(b.Sequence()); i++ {
			names = append(names, at[fmt.Sprint(i)])
		}
		return nil
	}))
	return names
}

func TestJoinIsStoredWithItsEntryOrNotAtAll(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := open(t, dir, nil)
	batch := one(begin(t, s, key("a")), joining(t, "a", note("first"), note("second")))
	require.NoError(t, s.Commit(ctx, batch))
	require.NoError(t, batch[0].Err)
	require.NoError(t, s.Commit(ctx, batch), "again")
	require.NoError(t, batch[0].Err)
	require.NotNil(t, batch[0].Existing)
	assert.Equal(t, []string{"first", "second"}, noted(t, s), "a repeated commit does not run them again")
	require.NoError(t, s.Close(ctx))
	assert.Equal(t, []string{"first", "second"}, noted(t, open(t, dir, nil)))
}

func TestFailingJoinCostsItsNeighboursNothing(t *testing.T) {
	own := errors.New("no such account")
	for name, c := range map[string]struct {
		fn   func(tx *bolt.Tx) error
		want []error
	}{
		"an error":             {func(*bolt.Tx) error { return own }, []error{onefold.ErrRejected, own}},
		"a conflict":           {func(*bolt.Tx) error { return fmt.Errorf("moved: %w", onefold.ErrConflict) }, []error{onefold.ErrConflict}},
		"a panic":              {func(*bolt.Tx) error { panic(own) }, []error{onefold.ErrRejected, own}},
		"a panic with nil":     {func(*bolt.Tx) error { panic(nil) }, []error{onefold.ErrRejected}},
		"a Goexit":             {func(*bolt.Tx) error { runtime.Goexit(); return nil }, []error{onefold.ErrRejected, onefold.ErrGoexit}},
		"a commit":             {func(tx *bolt.Tx) error { return tx.Commit() }, []error{onefold.ErrRejected}},
		"a rollback":           {func(tx *bolt.Tx) error { return tx.Rollback() }, []error{onefold.ErrRejected}},
		"our bucket deleted":   {func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("onefold")) }, []error{onefold.ErrRejected}},
		"a bucket of ours":     {func(tx *bolt.Tx) error { return tx.Bucket([]byte("onefold")).DeleteBucket([]byte("rows")) }, []error{onefold.ErrRejected}},
		"another store's loss": {func(*bolt.Tx) error { return onefold.ErrLost }, []error{onefold.ErrRejected}},
		"our bucket made anew": {func(tx *bolt.Tx) error {
			if err := tx.DeleteBucket([]byte("onefold")); err != nil {
				return err
			}
			_, err := tx.CreateBucket([]byte("onefold"))
			return err
		}, []error{onefold.ErrRejected}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s := open(t, t.TempDir(), nil)
			claim := begin(t, s, key("bad"))
			bad := &onefold.Commit{Claim: claim, Entry: joining(t, "bad", note("of the bad one"), c.fn)}
			batch := []*onefold.Commit{
				{Entry: entry(key("before"))}, {Entry: joining(t, "good", note("good"))}, bad,
				{Entry: joining(t, "last", note("last"))}, {Entry: entry(key("after"))},
			}
			require.NoError(t, s.Commit(ctx, batch))
			for _, want := range c.want {
				require.ErrorIs(t, bad.Err, want)
			}
			for _, not := range []error{onefold.ErrLost, onefold.ErrDamaged, onefold.ErrUnknown} {
				require.NotErrorIs(t, bad.Err, not)
			}
			for i, c := range batch {
				if c != bad {
					require.NoError(t, c.Err, i)
				}
			}
			assert.Equal(t, []string{"good", "last"}, noted(t, s))
			_, err := s.Lookup(ctx, key("bad"))
			require.ErrorIs(t, err, onefold.ErrNotFound)
			require.NoError(t, s.Renew(ctx, claim, time.Minute), "the claim is still held")

			bad.Entry = joining(t, "bad", note("mended"))
			require.NoError(t, s.Commit(ctx, []*onefold.Commit{bad}))
			require.NoError(t, bad.Err)
			assert.Equal(t, []string{"good", "last", "mended"}, noted(t, s))
			f, err := s.Feed(ctx, time.Minute)
			require.NoError(t, err)
			rows, err := f.Next(ctx, 10)
			require.NoError(t, err)
			require.Len(t, rows, 3, "no try has left rows behind")
		})
	}
}

func TestJoinRunsBetweenReadsAndWrites(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir(), nil)
	ran := 0
	e := joining(t, "a", func(*bolt.Tx) error { ran++; return nil })
	e.Reads = []onefold.Read{{Table: "t", Key: "k", Version: 7}}
	batch := one(nil, e)
	require.NoError(t, s.Commit(ctx, batch))
	require.ErrorIs(t, batch[0].Err, onefold.ErrConflict)
	assert.Zero(t, ran, "reads are checked first")
	e.Reads[0].Version = 0
	e.Writes = []onefold.Write{{Table: "t", Key: "k", Value: []byte("v")}}
	batch = one(nil, e)
	require.NoError(t, s.Commit(ctx, batch))
	require.NoError(t, batch[0].Err)
	assert.Equal(t, 1, ran)
}

// together makes the commits wait for one another, so that they come into one group.
func together(t *testing.T, s *boltstore.Store, g *gate, entries ...onefold.Entry) []*onefold.Commit {
	t.Helper()
	reached, release := g.hold()
	var all sync.WaitGroup
	first := one(nil, entry(key("holds the writer")))
	all.Go(func() { assert.NoError(t, s.Commit(context.Background(), first)) })
	<-reached
	commits := make([]*onefold.Commit, len(entries))
	for i, e := range entries {
		commits[i] = &onefold.Commit{Entry: e}
		all.Go(func() { assert.NoError(t, s.Commit(context.Background(), []*onefold.Commit{commits[i]})) })
		require.Eventually(t, func() bool { return s.Queued() == i+1 }, time.Minute, time.Microsecond)
	}
	release()
	all.Wait()
	return commits
}

func TestEntriesWithJoinsComeLastAndFailOneByOneWhenManyFail(t *testing.T) {
	var g gate
	var writes atomic.Int64
	s := open(t, t.TempDir(), boltstore.WithHooks(boltstore.Options{}, boltstore.Hooks{
		BeforeWrite: g.pass, AfterCommit: func() error { writes.Add(1); return nil },
	}))
	runs := 0
	var entries []onefold.Entry
	for i := range 8 {
		entries = append(entries, joining(t, fmt.Sprint("bad ", i), func(*bolt.Tx) error { runs++; return errors.New("no") }))
	}
	entries = append(entries, joining(t, "good", note("good")), entry(key("plain")))
	commits := together(t, s, &g, entries...)
	for i, c := range commits {
		if i < 8 {
			require.ErrorIs(t, c.Err, onefold.ErrRejected, i)
			continue
		}
		require.NoError(t, c.Err, i)
	}
	assert.Equal(t, []string{"good"}, noted(t, s))
	assert.Equal(t, 8, runs, "one that has failed is not run again")
	assert.Equal(t, int64(1+1+5+1), writes.Load(), "three fail in one group, and each that is left is alone in its own")
}

func TestSlowJoinsArePutIntoTheNextGroupInOrder(t *testing.T) {
	var g gate
	var mono atomic.Int64
	clock := onefold.Clock{Wall: time.Now, Mono: func() time.Duration { return time.Duration(mono.Load()) }}
	var writes atomic.Int64
	s := open(t, t.TempDir(), boltstore.WithHooks(boltstore.Options{Clock: clock}, boltstore.Hooks{
		BeforeWrite: g.pass, AfterCommit: func() error { writes.Add(1); return nil },
	}))
	slow := func(*bolt.Tx) error { mono.Add(int64(15 * time.Millisecond)); return nil }
	var entries []onefold.Entry
	var want []string
	for i := range 5 {
		want = append(want, fmt.Sprint(i))
		entries = append(entries, joining(t, want[i], note(want[i]), slow))
	}
	for _, c := range together(t, s, &g, entries...) {
		require.NoError(t, c.Err)
	}
	assert.Equal(t, want, noted(t, s))
	assert.Equal(t, int64(1+3), writes.Load(), "two fit into each group")
}

func TestBatchKeepsItsOrderAroundJoins(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir(), nil)
	var batch []*onefold.Commit
	for i := range 4 {
		e := joining(t, fmt.Sprint(i))
		if i%2 == 0 {
			e = joining(t, fmt.Sprint(i), note(fmt.Sprint(i)))
		}
		e.Effects[0].OrderKey = "k"
		batch = append(batch, &onefold.Commit{Entry: e})
	}
	require.NoError(t, s.Commit(ctx, batch))
	f, err := s.Feed(ctx, time.Minute)
	require.NoError(t, err)
	for i := range batch {
		require.NoError(t, batch[i].Err)
		rows, err := f.Next(ctx, 10)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		assert.Equal(t, fmt.Sprint(i), string(rows[0].Effect.Payload))
		require.NoError(t, s.Settle(ctx, []onefold.Settlement{{Row: rows[0], State: onefold.Sent}}))
	}
}

func TestTimersReplaceEachOtherOnceHoweverOftenTheGroupIsTried(t *testing.T) {
	var g gate
	s := open(t, t.TempDir(), boltstore.WithHooks(boltstore.Options{}, boltstore.Hooks{BeforeWrite: g.pass}))
	timed := func(id string, joins ...func(*bolt.Tx) error) onefold.Entry {
		e := joining(t, id, joins...)
		e.Effects[0].ID, e.Effects[0].Timer = "the timer", "t"
		return e
	}
	tries := 0
	commits := together(t, s, &g, timed("a"), timed("b", note("b"), func(*bolt.Tx) error { tries++; return nil }),
		timed("c", func(*bolt.Tx) error { return errors.New("no") }))
	require.NoError(t, commits[0].Err)
	require.NoError(t, commits[1].Err)
	require.ErrorIs(t, commits[2].Err, onefold.ErrRejected)
	assert.Equal(t, 2, tries)
	st, err := s.Stats(context.Background())
	require.NoError(t, err)
	assert.Equal(t, uint64(1), st.Waiting)
	assert.Equal(t, uint64(3), st.Records)
}

func TestLargeJoinsFitIntoATinyMapping(t *testing.T) {
	s := open(t, t.TempDir(), &boltstore.Options{MmapBytes: 32 << 10})
	for i := range 4 {
		batch := one(nil, joining(t, fmt.Sprint(i), func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(mine)
			if err != nil {
				return err
			}
			return b.Put(fmt.Append(nil, i), make([]byte, 5<<20))
		}))
		require.NoError(t, s.Commit(context.Background(), batch))
		require.NoError(t, batch[0].Err)
	}
	require.NoError(t, s.View(context.Background(), func(tx *bolt.Tx) error {
		assert.Len(t, tx.Bucket(mine).Get([]byte("3")), 5<<20)
		return nil
	}))
}

type impostor struct{}

func (impostor) StoreKind() string { return boltstore.Kind }

func TestJoinsOfOthersAreRefused(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	e := entry(key("a"))
	e.Joins = []onefold.Join{impostor{}}
	batch := one(nil, e)
	require.NoError(t, s.Commit(context.Background(), batch))
	require.ErrorIs(t, batch[0].Err, onefold.ErrUnsupported)
	fx := onefold.NewEffects(onefold.RunInfo{Key: key("a"), StoreKind: "memory"}, nil)
	require.ErrorIs(t, boltstore.Tx(fx, note("x")), onefold.ErrUnsupported)
	require.ErrorIs(t, fx.Err(), onefold.ErrUnsupported)
	fx = onefold.NewEffects(onefold.RunInfo{Key: key("a")}, nil)
	require.ErrorIs(t, boltstore.Tx(fx, nil), onefold.ErrInvalid)
}
