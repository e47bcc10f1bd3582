package boltstore_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/storetest"
)

func TestScenario_B06_WhatIsFreeInTheFileIsSaidAndCompactGivesItBack(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	s.fill(450, onefold.Effect{ID: "1", Kind: onefold.KindMessage, Target: "x", Payload: make([]byte, 1000)})
	f, err := s.Feed(ctx, time.Hour)
	require.NoError(t, err)
	rows, err := f.Next(ctx, 400)
	require.NoError(t, err)
	var all []onefold.Settlement
	for _, r := range rows {
		all = append(all, onefold.Settlement{Row: r, State: onefold.Sent})
	}
	full, err := s.Stats(ctx)
	require.NoError(t, err)
	require.NoError(t, s.Settle(ctx, all))
	settled, err := s.Stats(ctx)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, settled.Bytes, full.Bytes, "the file does not shrink")
	assert.Greater(t, settled.FreeBytes, full.FreeBytes+300_000, "what is free in it is told")
	_, _, err = boltstore.Compact(ctx, s.dir)
	require.ErrorIs(t, err, onefold.ErrInUse)
	require.NoError(t, s.Close(ctx))
	before, after, err := boltstore.Compact(ctx, s.dir)
	require.NoError(t, err)
	assert.Less(t, after, before/2)
	report, err := boltstore.Check(ctx, s.dir)
	require.NoError(t, err)
	require.NoError(t, report.Err())
	s.open()
	assert.True(t, s.Info().Clean)
	s.holds(0, 450)
	st, err := s.Stats(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 50, st.Waiting)
	assert.Less(t, st.FreeBytes, settled.FreeBytes/4)
}

func TestScenario_B17_AHundredBackupsTakenWhileWritingAreStoresOfTheirMoment(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	s.fill(130, onefold.Effect{ID: "1", Kind: onefold.KindMessage, Target: "x"})
	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				stopped <- n
				return
			default:
			}
			batch := one(nil, entry(key(fmt.Sprint("while", n))))
			if assert.NoError(t, s.Commit(ctx, batch)) && assert.NoError(t, batch[0].Err) {
				n++
			}
			s.KeepUp()
		}
	}()
	var copies [][]byte
	for range 100 {
		var b bytes.Buffer
		require.NoError(t, s.Backup(ctx, &b))
		copies = append(copies, b.Bytes())
	}
	close(stop)
	total := <-stopped
	previous := 0
	for _, b := range copies {
		dir := filepath.Join(t.TempDir(), "restored")
		require.NoError(t, boltstore.Restore(ctx, bytes.NewReader(b), dir))
		report, err := boltstore.Check(ctx, dir)
		require.NoError(t, err)
		require.NoError(t, report.Err())
		copied := &sealer{t: t, dir: dir, clock: s.clock, o: s.o}
		copied.open()
		copied.holds(0, 130)
		assert.Equal(t, s.Info().ID, copied.Info().ID)
		assert.Greater(t, copied.Info().Epoch, s.Info().Epoch+1000, "tokens stay above those that were given out")
		assert.False(t, copied.Info().Clean)
		n := len(copied.scanned(onefold.WhatRecords)) - 130
		assert.GreaterOrEqual(t, n, previous)
		assert.LessOrEqual(t, n, total)
		previous = n
		st, err := copied.Stats(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 130, st.Waiting)
		require.NoError(t, copied.Close(ctx))
	}
	left, err := filepath.Glob(filepath.Join(s.dir, "backup-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// stateOf commits values of a table in batches.
func stateOf(t *testing.T, s *boltstore.Store, from, to, bytes int, retain time.Duration) {
	t.Helper()
	for from < to {
		var w []onefold.Write
		for ; from < to && len(w) < 500; from++ {
			w = append(w, onefold.Write{Table: "t", Key: fmt.Sprintf("k%06d", from), Value: make([]byte, bytes), Retain: retain})
		}
		batch := one(nil, onefold.Entry{Writes: w})
		require.NoError(t, s.Commit(context.Background(), batch))
		require.NoError(t, batch[0].Err)
	}
}

// counters are those of bbolt at a moment.
func counters(t *testing.T, s *boltstore.Store) (c bolt.Stats, reaches int64) {
	t.Helper()
	require.NoError(t, s.View(context.Background(), func(tx *bolt.Tx) error {
		c, reaches = tx.DB().Stats(), tx.Size()
		return nil
	}))
	return c, reaches
}

func TestScenario_B07_AfterAMassDeletionACommitWritesItsOwnPagesAndNoListOfFreeOnes(t *testing.T) {
	clock := storetest.NewClock()
	s := open(t, t.TempDir(), boltstore.WithHooks(boltstore.Options{Clock: clock.Clock()}, boltstore.Hooks{SweepEvery: time.Hour}))
	const commits, mostPages = 50, 6
	page := os.Getpagesize()
	all := mostPages * page / 4
	stateOf(t, s, 0, all/10, page*3/4, 0)
	stateOf(t, s, all/10, all, page*3/4, time.Minute)
	clock.Advance(time.Hour)
	s.Sweep()
	before, _ := counters(t, s)
	for i := range commits {
		commit(t, s, key(fmt.Sprint(i)))
	}
	after, _ := counters(t, s)
	list := 8 * (after.FreePageN + after.PendingPageN)
	require.Greater(t, list, mostPages*page, "or a list would be too short to be seen")
	assert.LessOrEqual(t, after.TxStats.GetPageAlloc()-before.TxStats.GetPageAlloc(), int64(commits*mostPages*page), "bytes of all pages that were written")
}

func TestScenario_B08_WhatALongViewPinsIsToldAndUsedAgainAfterIt(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir(), nil)
	stateOf(t, s, 0, 100, 2000, 0)
	leave := viewed(t, s)
	rewritten := func() (pinned, reaches int64) {
		for range 50 {
			stateOf(t, s, 0, 100, 2000, 0) // commits go on
		}
		c, reaches := counters(t, s)
		return int64(c.PendingPageN) * int64(os.Getpagesize()), reaches
	}
	pinned, reached := rewritten()
	st, err := s.Stats(ctx)
	require.NoError(t, err)
	assert.Greater(t, pinned, int64(49*100*2000), "the file grows by what is replaced meanwhile")
	assert.GreaterOrEqual(t, st.FreeBytes, pinned, "which is told as free")
	leave()
	pinned, reaches := rewritten()
	assert.Less(t, pinned, int64(5*100*os.Getpagesize()), "a few commits, until the next one")
	assert.Equal(t, reached, reaches, "the file grows no further")
}

func TestScenario_B08_NoReadTransactionStaysOpenWhileTheCallerWorks(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	s.fill(130, onefold.Effect{ID: "1", Kind: onefold.KindMessage, Target: "x"})
	alone := func(doing string) {
		t.Helper()
		c, _ := counters(t, s.Store)
		assert.Equal(t, 2, c.OpenTxN, "that of the store and the one that looks, while %s", doing)
	}
	alone("nothing is done")
	for _, err := range s.Scan(ctx, onefold.Query{What: onefold.WhatRecords}) {
		require.NoError(t, err)
		alone("Scan gives an item")
	}
	looks := 0
	require.NoError(t, s.Backup(ctx, writerFunc(func(b []byte) (int, error) {
		looks++
		alone("Backup writes")
		return len(b), nil
	})))
	assert.Positive(t, looks)
	f, err := s.Feed(ctx, time.Hour)
	require.NoError(t, err)
	rows, err := f.Next(ctx, 10)
	require.NoError(t, err)
	require.Len(t, rows, 10)
	begin(t, s.Store, key("held"))
	alone("rows are out and a handler runs")
}

type writerFunc func(b []byte) (int, error)

func (w writerFunc) Write(b []byte) (int, error) { return w(b) }
