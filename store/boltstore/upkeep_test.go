package boltstore_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/storetest"
)

func TestSweepEndsItsRoundWhileTheWriterIsBusy(t *testing.T) {
	ctx := context.Background()
	clock := storetest.NewClock()
	s := open(t, t.TempDir(), boltstore.WithHooks(boltstore.Options{Clock: clock.Clock()}, boltstore.Hooks{SweepEvery: 20 * time.Millisecond}))
	batch := make([]*onefold.Commit, 0, 3000)
	for i := range 3000 {
		batch = append(batch, &onefold.Commit{Entry: onefold.Entry{Writes: []onefold.Write{
			{Table: "t", Key: fmt.Sprint(i), Value: []byte("v"), Retain: time.Minute},
		}}})
	}
	require.NoError(t, s.Commit(ctx, batch))
	clock.Advance(time.Hour)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			c := &onefold.Commit{Entry: entry(key(fmt.Sprint(i)))}
			if err := s.Commit(ctx, []*onefold.Commit{c}); err != nil || c.Err != nil {
				t.Error(err, c.Err)
				return
			}
		}
	}()
	require.Eventually(t, func() bool { return !s.ExpiredState() }, time.Minute, time.Millisecond)
	close(stop)
	<-stopped
}

// holds reports whether a file of the closed store has these bytes anywhere in a value that is in use.
func holds(t *testing.T, dir, text string) bool {
	t.Helper()
	found := false
	for _, v := range allValues(t, dir) {
		found = found || bytes.Contains(v, []byte(text))
	}
	return found
}

func TestNothingOfAKeyIsLeftAfterErase(t *testing.T) {
	ctx := context.Background()
	personal := key("alice@example.org")
	effect := onefold.Effect{ID: "1", Kind: onefold.KindMessage, Target: "x", Payload: []byte("SECRET payload")}
	for _, c := range []struct {
		name string
		make func(t *testing.T, s *boltstore.Store, clock *storetest.Clock)
		mark bool // a mark stays
	}{
		{"after an expired record", func(t *testing.T, s *boltstore.Store, clock *storetest.Clock) {
			put(t, s, personal, "SECRET result")
			clock.Advance(2 * time.Hour)
			put(t, s, personal, "SECRET result")
		}, true},
		{"when the record has expired", func(t *testing.T, s *boltstore.Store, clock *storetest.Clock) {
			put(t, s, personal, "SECRET result")
			clock.Advance(2 * time.Hour)
		}, false},
		{"when the record has expired and a row waits", func(t *testing.T, s *boltstore.Store, clock *storetest.Clock) {
			put(t, s, personal, "SECRET result", effect)
			clock.Advance(2 * time.Hour)
		}, true},
		{"when there are failures only", func(t *testing.T, s *boltstore.Store, _ *storetest.Clock) {
			require.NoError(t, s.Release(ctx, begin(t, s, personal), onefold.Failure{Counted: true, Reason: "SECRET reason"}))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock, dir := storetest.NewClock(), t.TempDir()
			s := open(t, dir, boltstore.WithHooks(boltstore.Options{Clock: clock.Clock()}, boltstore.Hooks{EraseLag: time.Second}))
			c.make(t, s, clock)
			put(t, s, key("bystander"), "kept", effect)
			require.NoError(t, s.Erase(ctx, personal))
			clock.Advance(2 * time.Second)
			s.KeepUp()
			g, err := s.Begin(ctx, request(personal))
			require.NoError(t, err)
			assert.Zero(t, g.History)
			if g.Verdict == onefold.Granted {
				require.NoError(t, s.Release(ctx, g.Claim, onefold.Failure{}))
			}
			if !c.mark {
				require.ErrorIs(t, s.Erase(ctx, personal), onefold.ErrNotFound, "nothing is left")
			}
			r, err := s.Lookup(ctx, key("bystander"))
			require.NoError(t, err)
			assert.Equal(t, 1, r.Unsettled)
			require.NoError(t, s.Close(ctx))
			for _, text := range []string{personal.ID, "SECRET result", "SECRET reason"} {
				assert.False(t, holds(t, dir, text), text)
			}
			s = open(t, dir, &boltstore.Options{Clock: clock.Clock()})
			st, err := s.Stats(ctx)
			require.NoError(t, err)
			assert.Equal(t, uint64(1), st.Waiting, "the bystander's")
		})
	}
}

// put stores a record with a result.
func put(t *testing.T, s *boltstore.Store, k onefold.Key, result string, effects ...onefold.Effect) {
	t.Helper()
	e := entry(k, effects...)
	e.Result = []byte(result)
	batch := one(nil, e)
	require.NoError(t, s.Commit(context.Background(), batch))
	require.NoError(t, batch[0].Err)
}

func TestMarkOfAnErasedKeyDiffersBetweenStores(t *testing.T) {
	var marks []string
	for range 2 {
		dir := t.TempDir()
		s := open(t, dir, nil)
		commit(t, s, key("a"))
		require.NoError(t, s.Erase(context.Background(), key("a")))
		require.NoError(t, s.Close(context.Background()))
		for _, v := range allValues(t, dir) {
			if len(v) > 60 && v[0] == 2 && v[1]&4 != 0 {
				marks = append(marks, string(v[len(v)-36:len(v)-4]))
			}
		}
	}
	require.Len(t, marks, 2)
	assert.NotEqual(t, marks[0], marks[1])
}

func TestNewerMainFileWithoutItsMarkIsRefusedUntouched(t *testing.T) {
	dir := made(t)
	setFormat(t, dir, 7)
	require.NoError(t, os.Remove(filepath.Join(dir, "STORE")))
	before, err := os.ReadFile(main(dir))
	require.NoError(t, err)
	_, err = boltstore.Open(dir, nil)
	require.ErrorIs(t, err, onefold.ErrNewerFormat)
	after, err := os.ReadFile(main(dir))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(before, after), "not a byte is written")
	assert.NoFileExists(t, filepath.Join(dir, "STORE"))
}

func TestFileThatCannotBeLoadedIsRefusedUntouched(t *testing.T) {
	dir := made(t)
	setRecordFlag(t, dir, 0x80)
	before, err := os.ReadFile(main(dir))
	require.NoError(t, err)
	_, err = boltstore.Open(dir, nil)
	require.ErrorIs(t, err, onefold.ErrNewerFormat)
	assert.ErrorContains(t, err, "0x80")
	after, err := os.ReadFile(main(dir))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(before, after), "not a byte is written")
}

func TestCreationInProgressElsewhereIsNotRemoved(t *testing.T) {
	dir := t.TempDir()
	write(t, main(dir), strings.Repeat("\x00", 16<<10))
	before, err := os.Stat(main(dir))
	require.NoError(t, err)
	release := lockElsewhere(t, main(dir))
	_, err = boltstore.Open(dir, &boltstore.Options{LockWait: -1})
	require.ErrorIs(t, err, onefold.ErrInUse)
	after, err := os.Stat(main(dir))
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after))
	assert.Equal(t, before.Size(), after.Size())
	release()
	s := open(t, dir, nil)
	commit(t, s, key("a"))
	after, err = os.Stat(main(dir))
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after), "it is begun again and not unlinked")
}

func TestOpenMakesAllMissingDirectories(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "c")
	s := open(t, dir, nil)
	commit(t, s, key("a"))
}

func TestShortDurationsAreTakenForAMistake(t *testing.T) {
	for _, o := range []boltstore.Options{{FailureLag: 1000}, {LockWait: 5}} {
		_, err := boltstore.Open(t.TempDir(), &o)
		require.ErrorIs(t, err, onefold.ErrInvalid)
		assert.ErrorContains(t, err, "is the unit right?")
	}
}

// fill commits until the store is full.
func fill(t *testing.T, s *boltstore.Store, failed func()) {
	t.Helper()
	for i := range 1_000 {
		batch := make([]*onefold.Commit, 16)
		for n := range batch {
			e := entry(key(fmt.Sprint("fill ", i, " ", n)))
			e.Result = make([]byte, 1<<10-100)
			batch[n] = &onefold.Commit{Entry: e}
		}
		require.NoError(t, s.Commit(context.Background(), batch))
		if batch[0].Err != nil {
			require.ErrorIs(t, batch[0].Err, onefold.ErrFull)
			failed()
			return
		}
	}
	t.Fatal("the file never got full")
}

func TestFullDiskIsFoundBeforeBboltBeginsToCommit(t *testing.T) {
	ctx := context.Background()
	commits, stored := 0, 0
	s := open(t, t.TempDir(), boltstore.WithHooks(boltstore.Options{}, boltstore.Hooks{
		MaxFile: 4 << 20, BeforeCommit: func() error { commits++; return nil }, AfterCommit: func() error { stored++; return nil },
	}))
	commit(t, s, key("row"), onefold.Effect{ID: "1", Kind: "message", Target: "a"})
	fill(t, s, func() { require.Equal(t, stored, commits, "the transaction that failed was not committed") })
	f, err := s.Feed(ctx, time.Minute)
	require.NoError(t, err)
	rows, err := f.Next(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, s.Settle(ctx, []onefold.Settlement{{Row: rows[0], State: onefold.Sent}}), "there is room left for what frees")
	require.NoError(t, s.Close(ctx), "and for the farewell")
}

func TestOnAFullDiskSettlingDoesNotFailForItsNeighbours(t *testing.T) {
	ctx := context.Background()
	var g gate
	s := open(t, t.TempDir(), boltstore.WithHooks(boltstore.Options{}, boltstore.Hooks{MaxFile: 4 << 20, BeforeWrite: g.pass}))
	commit(t, s, key("row"), onefold.Effect{ID: "1", Kind: "message", Target: "a"})
	f, err := s.Feed(ctx, time.Minute)
	require.NoError(t, err)
	rows, err := f.Next(ctx, 1)
	require.NoError(t, err)
	claims := map[string]*onefold.Claim{"first": begin(t, s, key("first")), "neighbour": begin(t, s, key("neighbour"))}
	fill(t, s, func() {})

	reached, release := g.hold()
	results := make(chan error, 3)
	add := func(id string) {
		e := entry(key(id))
		e.Result = make([]byte, 1<<20)
		batch := one(claims[id], e)
		if err := s.Commit(ctx, batch); err != nil {
			results <- err
			return
		}
		results <- batch[0].Err
	}
	go add("first")
	<-reached
	settled := make(chan error, 1)
	go func() { settled <- s.Settle(ctx, []onefold.Settlement{{Row: rows[0], State: onefold.Sent}}) }()
	go add("neighbour")
	require.Eventually(t, func() bool { return s.Queued() == 2 }, time.Minute, time.Millisecond)
	release()
	require.NoError(t, <-settled)
	for range 2 {
		require.ErrorIs(t, <-results, onefold.ErrFull)
	}
	r, err := s.Lookup(ctx, key("row"))
	require.NoError(t, err)
	assert.Zero(t, r.Unsettled)
}
