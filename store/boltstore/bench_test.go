package boltstore_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/storetest"
)

func BenchmarkShared(b *testing.B) {
	storetest.Bench(b, func(b testing.TB) onefold.Store { return open(b, b.TempDir(), nil) })
}

// BenchmarkGroupCommit measures the way from Begin to the durable record: two committers with batches of
// 256 records of 72 bytes, as a consumer makes them.
func BenchmarkGroupCommit(b *testing.B) {
	s := open(b, b.TempDir(), nil)
	const size = 256
	ctx := context.Background()
	keys := make([]onefold.Key, b.N)
	for i := range keys {
		keys[i] = onefold.Key{Scope: "ORDERS/billing", ID: "order-" + strconv.Itoa(i)}
	}
	var next, inBegin, inCommit atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			commits := make([]onefold.Commit, size)
			batch := make([]*onefold.Commit, 0, size)
			for {
				first := int(next.Add(size)) - size
				if first >= b.N {
					return
				}
				batch = batch[:0]
				t := time.Now()
				for i := first; i < min(first+size, b.N); i++ {
					g, err := s.Begin(ctx, onefold.Request{
						Key: keys[i], Lease: time.Minute, Holder: onefold.Holder{Process: 1, Attempt: uint64(i) + 1},
					})
					if err != nil || g.Verdict != onefold.Granted {
						b.Error(g.Verdict, err)
						return
					}
					c := &commits[len(batch)]
					*c = onefold.Commit{Claim: g.Claim, Entry: onefold.Entry{Key: keys[i], Outcome: onefold.Succeeded, Retain: time.Hour}}
					batch = append(batch, c)
				}
				inBegin.Add(int64(time.Since(t)))
				t = time.Now()
				if err := s.Commit(ctx, batch); err != nil {
					b.Error(err)
					return
				}
				inCommit.Add(int64(time.Since(t)))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(inBegin.Load())/float64(b.N), "ns-in-Begin/op")
	require.NoError(b, s.Close(ctx))
}

// BenchmarkCallerSide measures what a record costs its caller outside the writer: Begin alone, for a fresh
// key.
func BenchmarkCallerSide(b *testing.B) {
	s := open(b, b.TempDir(), nil)
	ctx := context.Background()
	keys := make([]onefold.Key, b.N)
	for i := range keys {
		keys[i] = onefold.Key{Scope: "ORDERS/billing", ID: "order-" + strconv.Itoa(i)}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		g, err := s.Begin(ctx, onefold.Request{
			Key: keys[i], Lease: time.Minute, Holder: onefold.Holder{Process: 1, Attempt: uint64(i) + 1},
		})
		if err != nil || g.Verdict != onefold.Granted {
			b.Fatal(g.Verdict, err)
		}
	}
	b.StopTimer()
	require.NoError(b, s.Close(ctx))
}

// open opens a store that is closed at the end of the test at the latest.
func open(t testing.TB, dir string, o *boltstore.Options) *boltstore.Store {
	t.Helper()
	s, err := boltstore.Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// BenchmarkOpen measures how long opening takes with 200,000 records in the active segment.
func BenchmarkOpen(b *testing.B) {
	ctx, dir := context.Background(), b.TempDir()
	s := open(b, dir, nil)
	const all, size = 200_000, 4_000
	for first := 0; first < all; first += size {
		batch := make([]*onefold.Commit, 0, size)
		for i := first; i < first+size; i++ {
			batch = append(batch, &onefold.Commit{Entry: entry(key(strconv.Itoa(i)))})
		}
		require.NoError(b, s.Commit(ctx, batch))
	}
	require.NoError(b, s.Close(ctx))
	b.ResetTimer()
	for range b.N {
		s, err := boltstore.Open(dir, nil)
		require.NoError(b, err)
		b.StopTimer()
		require.NoError(b, s.Close(ctx))
		b.StartTimer()
	}
}
