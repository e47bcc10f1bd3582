package boltstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/storetest"
)

// busyStore is a store that several goroutines commit to, and what it has answered.
type busyStore struct {
	store   *boltstore.Store
	mu      sync.Mutex
	records map[onefold.Key]string
	stop    chan struct{}
	workers sync.WaitGroup
}

func newBusyStore(t *testing.T, dir string, o *boltstore.Options) *busyStore {
	s, err := boltstore.Open(dir, o)
	require.NoError(t, err)
	b := &busyStore{store: s, records: map[onefold.Key]string{}, stop: make(chan struct{})}
	for n := range 4 {
		b.workers.Go(func() { b.work(n) })
	}
	return b
}

// work commits until it is told to stop, a few entries at a time. Some have effects, which are ended by the
// timers of later ones, so that pages of all buckets are freed and used again.
func (b *busyStore) work(worker int) {
	for round := 0; ; round++ {
		select {
		case <-b.stop:
			return
		default:
		}
		var batch []*onefold.Commit
		for i := range 1 + round%5 {
			k := onefold.Key{Scope: fmt.Sprint("worker ", worker), ID: fmt.Sprint(round, "-", i)}
			e := onefold.Entry{Key: k, Outcome: onefold.Succeeded, Retain: time.Hour, Result: []byte(k.ID)}
			e.Writes = []onefold.Write{{Table: "t", Key: fmt.Sprint(worker, round%50), Value: make([]byte, 10*(round%40))}}
			e.Effects = []onefold.Effect{{ID: fmt.Sprint(worker, i), Timer: "t", Kind: onefold.KindMessage, Payload: make([]byte, 10*(round%60))}}
			batch = append(batch, &onefold.Commit{Entry: e})
		}
		if err := b.store.Commit(context.Background(), batch); err != nil {
			panic(err)
		}
		b.mu.Lock()
		for _, c := range batch {
			if c.Err != nil {
				panic(c.Err)
			}
			b.records[c.Entry.Key] = fmt.Sprintf("%q", c.Entry.Result)
		}
		b.mu.Unlock()
	}
}

func (b *busyStore) answered() map[onefold.Key]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.records)
}

func (b *busyStore) end(t *testing.T) {
	close(b.stop)
	b.workers.Wait()
	require.NoError(t, b.store.Close(context.Background()))
}

// copySlowly copies a directory as a tool does that knows nothing of what is in it: file after file, in small
// pieces, while it is written to.
func copySlowly(from, to string, piece int64) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // unlinked meanwhile
		}
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		source, err := os.Open(path)
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		defer source.Close() //nolint:errcheck // it was only read
		copied, err := os.Create(target)
		if err != nil {
			return err
		}
		for {
			if _, err = io.CopyN(copied, source, piece); errors.Is(err, io.EOF) {
				return copied.Close()
			}
			if err != nil {
				return err
			}
		}
	})
}

// missing opens a copy and returns what is wrong with it: a key that had been answered before the copy began
// is done in it, or the store names its damage. gap: only checked values can tell.
func missing(dir string, o *boltstore.Options, answered map[onefold.Key]string) (finding string, gap bool) {
	s, err := boltstore.Open(dir, o)
	if err != nil {
		if named(err) {
			return "", false
		}
		return fmt.Sprintf("open: an error without a name: %v", err), false
	}
	defer s.Close(context.Background()) //nolint:errcheck // the answers are what counts
	n := uint64(0)
	for k, want := range answered {
		n++
		g, err := s.Begin(context.Background(), onefold.Request{Key: k, Lease: time.Minute, Holder: onefold.Holder{Process: 7, Attempt: n}})
		switch {
		case err != nil && !named(err):
			return fmt.Sprintf("%v: an error without a name: %v", k, err), false
		case err == nil && (g.Verdict != onefold.Done || fmt.Sprintf("%q", g.Record.Result) != want):
			return fmt.Sprintf("%v is %v, and was answered with %s", k, g.Verdict, want), true
		}
	}
	return "", false
}

func TestCopyMadeWhileItIsWrittenToIsWholeOrNamesItsDamage(t *testing.T) {
	c := inChild(t)
	if c == nil {
		t.Parallel()
		for _, seed := range damageSeeds() {
			assert.Empty(t, runChildren(t, seed))
		}
		return
	}
	copies := 60
	if c.few {
		copies = 12
	}
	clock := storetest.NewClock()
	o := boltstore.WithHooks(boltstore.Options{Clock: clock.Clock(), MmapBytes: 256 << 10}, boltstore.Hooks{SweepEvery: time.Millisecond})
	dir := t.TempDir()
	b := newBusyStore(t, dir, o)
	defer b.end(t)
	for n := range copies {
		for started := len(b.answered()); len(b.answered()) < started+20; { // let it work on
			runtime.Gosched()
		}
		name := fmt.Sprint("copy ", n)
		to := t.TempDir()
		answered := b.answered()
		require.NoError(t, copySlowly(dir, to, []int64{512, 4096, 64 << 10}[n%3]))
		if c.at(t, n, name) {
			finding, gap := missing(to, o, answered)
			if gap && unchecked() != "" {
				finding = ""
			}
			c.found(t, name, finding)
		}
		require.NoError(t, os.RemoveAll(to))
	}
}
