package boltstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// TestEverythingGoesOnWhileTheFileIsMappedAnew lets the file outgrow its mapping many times while all
// operations run. bbolt waits for readers before it maps anew; a reader that is forgotten would block for
// ever.
func TestEverythingGoesOnWhileTheFileIsMappedAnew(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := open(t, t.TempDir(), boltstore.WithHooks(boltstore.Options{MmapBytes: 32 << 10}, boltstore.Hooks{HashBits: 8, RowBudget: 1}))
	const workers, each = 4, 60
	var writers, readers sync.WaitGroup
	for w := range workers {
		writers.Go(func() {
			for i := range each {
				if err := work(ctx, s, key(fmt.Sprintf("%d-%d", w, i)), i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	readers.Go(func() {
		if err := relay(ctx, s, workers*each); err != nil {
			t.Error(err)
		}
	})
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := look(ctx, s); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	st, err := s.Stats(ctx)
	require.NoError(t, err)
	assert.Greater(t, st.Bytes, int64(4<<20), "the file has outgrown its first mapping many times")
	assert.Zero(t, st.Waiting)
}

// A page is written anew with all that stands in it, so a small entry can make the file grow by as much as
// its large neighbour.
func TestSmallEntryBehindALargeOneFindsRoom(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	for range 2 { // the second time the large one is known from the file only
		s := open(t, dir, &boltstore.Options{MmapBytes: 32 << 10, MaxEntry: 64 << 20})
		large := entry(key(fmt.Sprint("large", s.Info().Epoch)))
		large.Result = make([]byte, 24<<20)
		for _, e := range []onefold.Entry{entry(key(fmt.Sprint("before", s.Info().Epoch))), large, entry(key(fmt.Sprint("behind", s.Info().Epoch)))} {
			batch := one(nil, e)
			require.NoError(t, s.Commit(ctx, batch))
			require.NoError(t, batch[0].Err)
		}
		require.NoError(t, s.Close(ctx))
	}
}

// work takes a key through its life, with a failed attempt and an erasure now and then.
func work(ctx context.Context, s *boltstore.Store, k onefold.Key, i int) error {
	r := request(k)
	r.Durable = i%5 == 0
	g, err := s.Begin(ctx, r)
	if err != nil {
		return err
	}
	if i%3 == 0 {
		if err := s.Release(ctx, g.Claim, onefold.Failure{Counted: true, Reason: "again"}); err != nil {
			return err
		}
		if g, err = s.Begin(ctx, request(k)); err != nil {
			return err
		}
	}
	e := entry(k, onefold.Effect{ID: k.EffectID(0), Kind: "message", Target: "a", OrderKey: fmt.Sprint(i % 7), Payload: make([]byte, 30<<10)})
	e.Result = make([]byte, 30<<10)
	e.Writes = []onefold.Write{{Table: "t", Key: k.ID, Value: make([]byte, 5000), Retain: time.Hour}}
	batch := one(g.Claim, e)
	if err := s.Commit(ctx, batch); err != nil || batch[0].Err != nil {
		return errors.Join(err, batch[0].Err)
	}
	if _, err := s.Read(ctx, "t", k.ID); err != nil {
		return err
	}
	if i%4 == 0 {
		if _, err := s.Wait(ctx, k); err != nil {
			return err
		}
		return s.Erase(ctx, k)
	}
	_, err = s.Lookup(ctx, k)
	return err
}

// relay settles rows until n have ended.
func relay(ctx context.Context, s *boltstore.Store, n int) error {
	f, err := s.Feed(ctx, time.Minute)
	if err != nil {
		return err
	}
	for ended := 0; ended < n; {
		rows, err := f.Next(ctx, 16)
		if err != nil {
			return err
		}
		all := make([]onefold.Settlement, len(rows))
		for i, r := range rows {
			all[i] = onefold.Settlement{Row: r, State: onefold.Sent}
			if r.Attempt == 1 && i%2 == 0 {
				all[i].State, all[i].Reason = onefold.Delayed, "not yet"
			} else {
				ended++
			}
		}
		if err := s.Settle(ctx, all); err != nil {
			return err
		}
	}
	return nil
}

func look(ctx context.Context, s *boltstore.Store) error {
	for _, what := range []onefold.What{onefold.WhatRecords, onefold.WhatWaiting, onefold.WhatParked, onefold.WhatState} {
		for _, err := range s.Scan(ctx, onefold.Query{What: what, Table: "t"}) {
			if err != nil {
				return err
			}
		}
	}
	_, err := s.Stats(ctx)
	return err
}
