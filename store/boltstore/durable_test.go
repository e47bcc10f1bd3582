package boltstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/storetest"
)

// snapshots copies a store between two writes, together with the keys that were answered until then.
type snapshots struct {
	mu    sync.Mutex
	dir   string
	acked []onefold.Key
	taken []func(t *testing.T)
	n     int
}

func (c *snapshots) ack(k onefold.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked = append(c.acked, k)
}

// take is called by the writer, which therefore writes nothing meanwhile.
func (c *snapshots) take() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n%20 != 0 {
		return
	}
	acked := append([]onefold.Key{}, c.acked...)
	b, err := os.ReadFile(filepath.Join(c.dir, "main.db"))
	mark, markErr := os.ReadFile(filepath.Join(c.dir, "STORE"))
	c.taken = append(c.taken, func(t *testing.T) {
		require.NoError(t, err)
		require.NoError(t, markErr)
		dir := t.TempDir()
		write(t, filepath.Join(dir, "main.db"), string(b))
		write(t, filepath.Join(dir, "STORE"), string(mark))
		s := open(t, dir, &boltstore.Options{MmapBytes: 32 << 10})
		assert.False(t, s.Info().Clean)
		for _, k := range acked {
			r, err := s.Lookup(context.Background(), k)
			require.NoError(t, err)
			assert.Equal(t, 1, r.Unsettled)
		}
		f, err := s.Feed(context.Background(), time.Minute)
		require.NoError(t, err)
		for got := 0; got < len(acked); {
			rows, err := f.Next(context.Background(), 100)
			require.NoError(t, err)
			got += len(rows)
		}
		require.NoError(t, s.Close(context.Background()))
	})
}

func TestWhatWasAnsweredIsInEveryCopyOfTheFile(t *testing.T) {
	c := &snapshots{dir: t.TempDir()}
	s := open(t, c.dir, boltstore.WithHooks(boltstore.Options{MmapBytes: 32 << 10}, boltstore.Hooks{BeforeWrite: c.take}))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 60 {
				k := key(fmt.Sprintf("%d-%d", w, i))
				batch := one(nil, entry(k, onefold.Effect{ID: k.EffectID(0), Kind: "message", Target: "a"}))
				if err := s.Commit(context.Background(), batch); err != nil || batch[0].Err != nil {
					t.Error(err, batch[0].Err)
					return
				}
				c.ack(k)
			}
		})
	}
	wg.Wait()
	require.NoError(t, s.Close(context.Background()))
	require.NotEmpty(t, c.taken)
	for _, check := range c.taken {
		check(t)
	}
}

func TestNoClaimIsLeftWhenAllKeysAreDone(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir(), nil)
	const all, size = 100_000, 2_000
	for first := 0; first < all; first += size {
		batch := make([]*onefold.Commit, 0, size)
		for i := first; i < first+size; i++ {
			k := key(fmt.Sprint(i))
			c := begin(t, s, k)
			if i%10 == 0 {
				require.NoError(t, s.Release(ctx, c, onefold.Failure{}))
				continue
			}
			batch = append(batch, &onefold.Commit{Claim: c, Entry: entry(k)})
		}
		require.NoError(t, s.Commit(ctx, batch))
	}
	assert.Zero(t, s.LiveClaims())
	st, err := s.Stats(ctx)
	require.NoError(t, err)
	assert.Equal(t, uint64(all-all/10), st.Records)
}

func TestAbandonedClaimsAreCollected(t *testing.T) {
	clock := storetest.NewClock()
	s := open(t, t.TempDir(), &boltstore.Options{Clock: clock.Clock()})
	begin(t, s, key("a"))
	s.Sweep()
	assert.Equal(t, 1, s.LiveClaims(), "its lease is not over")
	clock.Advance(time.Hour)
	s.Sweep()
	assert.Zero(t, s.LiveClaims())
}

// count is how many entries a bucket of a closed store has.
func count(t *testing.T, dir, bucket string) (n int) {
	t.Helper()
	db, err := bolt.Open(main(dir), 0o600, &bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("onefold")).Bucket([]byte(bucket)).ForEach(func(_, _ []byte) error {
			n++
			return nil
		})
	}))
	require.NoError(t, db.Close())
	return n
}

func TestExpiredStateAndHistoryAreCollected(t *testing.T) {
	ctx := context.Background()
	clock, dir := storetest.NewClock(), t.TempDir()
	s := open(t, dir, &boltstore.Options{Clock: clock.Clock()})
	put := func(k string, retain time.Duration) {
		batch := one(nil, onefold.Entry{Writes: []onefold.Write{{Table: "t", Key: k, Value: []byte("v"), Retain: retain}}})
		require.NoError(t, s.Commit(ctx, batch))
		require.NoError(t, batch[0].Err)
	}
	for i := range 300 {
		put(fmt.Sprint(i), time.Minute)
	}
	put("longer", 30*24*time.Hour)
	put("1", 30*24*time.Hour) // written anew with a longer life
	put("2", 0)
	require.NoError(t, s.Release(ctx, begin(t, s, key("never ends")), onefold.Failure{Counted: true, Reason: "boom"}))
	clock.Advance(8 * 24 * time.Hour)
	s.Sweep()
	s.Sweep()
	require.NoError(t, s.Close(ctx))
	assert.Equal(t, 3, count(t, dir, "state"))
	assert.Equal(t, 2, count(t, dir, "stateexp"))
	assert.Zero(t, count(t, dir, "history"))
}

func TestFailureIsDurableAfterItsLag(t *testing.T) {
	ctx := context.Background()
	dir, written := t.TempDir(), make(chan struct{}, 8)
	s := open(t, dir, boltstore.WithHooks(boltstore.Options{FailureLag: time.Millisecond}, boltstore.Hooks{AfterCommit: func() error {
		written <- struct{}{}
		return nil
	}}))
	require.NoError(t, s.Release(ctx, begin(t, s, key("a")), onefold.Failure{Counted: true, Reason: "boom"}))
	<-written
	require.NoError(t, s.Crash())
	s = open(t, dir, nil)
	g, err := s.Begin(ctx, request(key("a")))
	require.NoError(t, err)
	assert.Equal(t, 1, g.History.Failures)
	assert.Equal(t, "boom", g.History.LastReason)
}

func TestFailuresBeyondOneGroupAreDurableToo(t *testing.T) {
	ctx := context.Background()
	for _, clean := range []bool{true, false} {
		dir, written := t.TempDir(), make(chan struct{}, 100)
		o := boltstore.WithHooks(boltstore.Options{FailureLag: time.Millisecond, MaxGroupEntries: 3}, boltstore.Hooks{AfterCommit: func() error {
			written <- struct{}{}
			return nil
		}})
		s := open(t, dir, o)
		for i := range 50 {
			require.NoError(t, s.Release(ctx, begin(t, s, key(fmt.Sprint(i))), onefold.Failure{Counted: true}))
		}
		if clean {
			require.NoError(t, s.Close(ctx))
		} else {
			require.Eventually(t, func() bool { return s.Unwritten() == 0 }, time.Minute, time.Millisecond)
			<-written
			require.NoError(t, s.Crash())
		}
		s = open(t, dir, nil)
		for i := range 50 {
			g, err := s.Begin(ctx, request(key(fmt.Sprint(i))))
			require.NoError(t, err)
			assert.Equal(t, 1, g.History.Failures)
		}
		require.NoError(t, s.Close(ctx))
	}
}

func TestAttemptsAreDurableBeforeARowIsHandedOutAfterAnUncleanEnd(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := open(t, dir, nil)
	commit(t, s, key("a"), onefold.Effect{ID: "1", Kind: "message", Target: "a"})
	for want := 1; want <= 3; want++ {
		// The process dies each time when it has the row.
		require.NoError(t, s.Crash())
		s = open(t, dir, nil)
		f, err := s.Feed(ctx, time.Minute)
		require.NoError(t, err)
		rows, err := f.Next(ctx, 1)
		require.NoError(t, err)
		assert.Equal(t, want, rows[0].Attempt)
	}
	require.NoError(t, s.Close(ctx))
	s = open(t, dir, nil)
	f, err := s.Feed(ctx, time.Minute)
	require.NoError(t, err)
	rows, err := f.Next(ctx, 1)
	require.NoError(t, err)
	assert.Equal(t, 4, rows[0].Attempt)
	require.NoError(t, s.Close(ctx))
	s = open(t, dir, nil)
	f, err = s.Feed(ctx, time.Minute)
	require.NoError(t, err)
	rows, err = f.Next(ctx, 1)
	require.NoError(t, err)
	assert.Equal(t, 5, rows[0].Attempt, "a clean close keeps attempts")
}
