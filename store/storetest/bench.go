package storetest

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/onefold-go/onefold"
)

// Bench runs the benchmarks that all stores share. open makes an empty store with the machine's clock;
// Bench closes it. An operation is one record, duplicate, increment or row.
func Bench(b *testing.B, open func(b testing.TB) onefold.Store) {
	for _, bench := range []struct {
		name string
		run  func(b *testing.B, s onefold.Store)
	}{
		{"begin and commit in batches of 256 from 2 goroutines", benchUnique},
		{"begin of a done key", benchDuplicate},
		{"read and write one value", benchState},
		{"rows through feed and settle", benchRows},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := open(b)
			b.Cleanup(func() {
				if err := s.Close(context.Background()); err != nil {
					b.Error(err)
				}
			})
			b.ReportAllocs()
			bench.run(b, s)
		})
	}
}

// batchSize is how many entries the benchmarks commit at once.
const batchSize = 256

// holders numbers the holders of benchmark claims.
type holders struct{ n atomic.Uint64 }

func (h *holders) begin(s onefold.Store, k onefold.Key) (*onefold.Claim, error) {
	g, err := s.Begin(context.Background(), onefold.Request{
		Key: k, Fingerprint: print(1), Lease: lease, Holder: onefold.Holder{Process: 1, Attempt: h.n.Add(1)},
	})
	return g.Claim, err
}

// commitMany claims and commits the keys numbered from first to before last in one batch.
func commitMany(s onefold.Store, h *holders, first, last int, effects bool) error {
	batch := make([]*onefold.Commit, 0, last-first)
	for i := first; i < last; i++ {
		k := key(strconv.Itoa(i))
		c, err := h.begin(s, k)
		if err != nil {
			return err
		}
		en := entry(k)
		if effects {
			en.Effects = []onefold.Effect{message(k, 0)}
		}
		batch = append(batch, &onefold.Commit{Claim: c, Entry: en})
	}
	if err := s.Commit(context.Background(), batch); err != nil {
		return err
	}
	for _, c := range batch {
		if c.Err != nil {
			return c.Err
		}
	}
	return nil
}

func benchUnique(b *testing.B, s onefold.Store) {
	var h holders
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				last := int(next.Add(batchSize))
				first := last - batchSize
				if first >= b.N {
					return
				}
				if err := commitMany(s, &h, first, min(last, b.N), false); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func benchDuplicate(b *testing.B, s onefold.Store) {
	var h holders
	const stored = 1 << 10
	if err := commitMany(s, &h, 0, stored, false); err != nil {
		b.Fatal(err)
	}
	keys := make([]onefold.Key, stored)
	for i := range keys {
		keys[i] = key(strconv.Itoa(i))
	}
	b.ResetTimer()
	for i := range b.N {
		if _, err := h.begin(s, keys[i%stored]); err != nil {
			b.Fatal(err)
		}
	}
}

func benchState(b *testing.B, s onefold.Store) {
	ctx := context.Background()
	for range b.N {
		v, err := s.Read(ctx, "t", "n")
		if err != nil {
			b.Fatal(err)
		}
		one := &onefold.Commit{Entry: onefold.Entry{
			Reads:  []onefold.Read{{Table: "t", Key: "n", Version: v.Version}},
			Writes: []onefold.Write{{Table: "t", Key: "n", Value: []byte("12345678")}},
		}}
		if err := s.Commit(ctx, []*onefold.Commit{one}); err != nil {
			b.Fatal(err)
		}
		if one.Err != nil {
			b.Fatal(one.Err)
		}
	}
}

func benchRows(b *testing.B, s onefold.Store) {
	ctx := context.Background()
	var h holders
	f, err := s.Feed(ctx, lease)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for first := 0; first < b.N; first += batchSize {
		last := min(first+batchSize, b.N)
		if err := commitMany(s, &h, first, last, true); err != nil {
			b.Fatal(err)
		}
		for left := last - first; left > 0; {
			rows, err := f.Next(ctx, batchSize)
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Settle(ctx, sentAll(rows)); err != nil {
				b.Fatal(err)
			}
			left -= len(rows)
		}
	}
}
