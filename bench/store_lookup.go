package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/onefold-go/onefold"
)

// lookups measures Begin of keys that are done and of keys that are not, one call after the other.
func (r *storeRun) lookups(ctx context.Context) error {
	if err := fillCache(r.dir); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(2, 3))
	records := r.load.next.Load()
	stored := func() onefold.Key { return recordKey(random.Uint64N(records)) }
	asked := uint64(0)
	fresh := func() onefold.Key {
		asked++
		return foreignKey(asked)
	}
	if _, err := r.lookup(ctx, stored, onefold.Done, r.limits.lookups/5); err != nil { // touches the mapped files
		return err
	}
	done, err := r.lookup(ctx, stored, onefold.Done, r.limits.lookups)
	if err != nil {
		return err
	}
	granted, err := r.lookup(ctx, fresh, onefold.Granted, r.limits.lookups/5)
	if err != nil {
		return err
	}
	r.judge(fmt.Sprintf("duplicate look-up at %s, p99", short(int(records))), atMost(r.limits.lookup, " us"), at(done, 99),
		"Begin of %s done keys: p50 %s us, p99.9 %s us; of %s fresh keys: p50 %s us, p99 %s us",
		short(int(done.TotalCount())), digits(at(done, 50)), digits(at(done, 99.9)),
		short(int(granted.TotalCount())), digits(at(granted, 50)), digits(at(granted, 99)))
	return nil
}

// lookup times n calls of Begin, in nanoseconds.
func (r *storeRun) lookup(ctx context.Context, next func() onefold.Key, want onefold.Verdict, n int) (*hdrhistogram.Histogram, error) {
	h := newHistogram()
	for i := range n {
		k := next()
		start := time.Now()
		g, err := begin(ctx, r.load.store, k, uint64(i))
		took := time.Since(start)
		if err != nil {
			return nil, err
		}
		if g.Verdict != want {
			return nil, fmt.Errorf("begin of %v: %v instead of %v", k, g.Verdict, want)
		}
		if err := h.RecordValue(int64(took)); err != nil {
			return nil, err
		}
		if g.Claim != nil {
			if err := r.load.store.Release(ctx, g.Claim, onefold.Failure{}); err != nil {
				return nil, err
			}
		}
	}
	return h, nil
}

// newHistogram is for times in nanoseconds, up to ten minutes.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(10*time.Minute), 3)
}

// at is a percentile in microseconds.
func at(h *hdrhistogram.Histogram, percentile float64) float64 {
	return float64(h.ValueAtPercentile(percentile)) / 1e3
}
