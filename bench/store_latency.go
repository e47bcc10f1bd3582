package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// How latency is measured.
const (
	pacedBatch   = 128
	pacedWorkers = 16
	pacedShare   = 0.5 // of the highest rate
	leastKept    = 0.8 // of that; with less, calls would only show how long the queue before them was
	highestTries = 3
	liveSegments = 20 // how many segments' worth of records live at once
	segmentLife  = time.Hour
)

// movedClock is the machine's clock, and what was added to it.
type movedClock struct{ ahead atomic.Int64 }

func (c *movedClock) clock() onefold.Clock {
	system := onefold.Clock{}.OrSystem()
	return onefold.Clock{
		Wall: func() time.Time { return system.Wall().Add(time.Duration(c.ahead.Load())) },
		Mono: func() time.Duration { return system.Mono() + time.Duration(c.ahead.Load()) },
	}
}

// latency compares how long commits take with and without background work.
func (r *storeRun) latency(ctx context.Context) (err error) {
	var c movedClock
	var w works
	dir := filepath.Join(r.work, "moved")
	s, err := boltstore.Open(dir, &boltstore.Options{SegmentRecords: r.segment, Clock: c.clock(), Observer: w.observer()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(context.Background()), os.RemoveAll(dir)) }()
	l := newLoad(s, 0, liveSegments*segmentLife)
	for range liveSegments {
		c.ahead.Add(int64(segmentLife))
		if _, err := l.commit(ctx, r.segment, nil); err != nil {
			return err
		}
	}
	quiet, busy := newHistogram(), newHistogram()
	var seen counts
	var kept []float64
	top, err := r.highest(ctx, l)
	if err != nil {
		return err
	}
	p := paced{load: l, every: time.Duration(float64(time.Second) * pacedBatch / (top * pacedShare))}
	for round := range r.limits.busyRounds + 1 {
		rate, err := r.quietRound(ctx, &p, quiet)
		if err != nil {
			return err
		}
		kept = append(kept, rate/(top*pacedShare))
		if round == r.limits.busyRounds {
			break
		}
		if err := r.busyRound(ctx, &p, &c, busy, &w, &seen); err != nil {
			return err
		}
	}
	if !r.short && median(kept) < leastKept { // the rounds of a short run are too short for this
		return fmt.Errorf("only %.0f %% of half of the highest rate could be kept without background work: is something else running here?",
			100*median(kept))
	}
	if seen.sealed == 0 || seen.merged == 0 || seen.expired == 0 {
		return fmt.Errorf("the rounds with background work have not seen all of it: %d segments sealed, %d merges, %d segments expired",
			seen.sealed, seen.merged, seen.expired)
	}
	r.judge("commit p99 while sealing, merging and expiring / without", atMost(r.limits.latency, ""), at(busy, 99)/at(quiet, 99),
		"p99 %s us of %d commits of %d records at %s, half of the highest rate; %d segments sealed, %d merges, %d expired; "+
			"without %s us of %d; p50 %s and %s us, p99.9 %s and %s us",
		digits(at(busy, 99)), busy.TotalCount(), pacedBatch, thousands(top*pacedShare), seen.sealed, seen.merged, seen.expired,
		digits(at(quiet, 99)), quiet.TotalCount(), digits(at(busy, 50)), digits(at(quiet, 50)), digits(at(busy, 99.9)), digits(at(quiet, 99.9)))
	return nil
}

// highest is the rate in records/s at which the store takes the batches of the paced rounds, with nothing in
// the background: the median of a few tries.
func (r *storeRun) highest(ctx context.Context, l *load) (float64, error) {
	batches := r.segment * 2 / 5 / pacedBatch
	var rates []float64
	for range highestTries {
		var took time.Duration
		err := l.undisturbed(ctx, r.segment, batches*pacedBatch, func() (err error) {
			took, err = (&paced{load: l}).run(ctx, batches, newHistogram(), nil)
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("highest rate: %w", err)
		}
		rates = append(rates, perSecond(batches*pacedBatch, took))
	}
	return median(rates), nil
}

// quietRound commits less than a segment's worth of records with nothing in the background, and returns the
// rate at which they were answered.
func (r *storeRun) quietRound(ctx context.Context, p *paced, into *hdrhistogram.Histogram) (rate float64, err error) {
	batches := r.segment * 4 / 5 / pacedBatch
	var h *hdrhistogram.Histogram
	err = p.load.undisturbed(ctx, r.segment, batches*pacedBatch, func() error {
		h = newHistogram()
		took, err := p.run(ctx, batches, h, nil)
		rate = perSecond(batches*pacedBatch, took)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("round without background work: %w", err)
	}
	into.Merge(h)
	return rate, nil
}

// busyRound commits several segments' worth of records and moves the clock on with each.
func (r *storeRun) busyRound(ctx context.Context, p *paced, c *movedClock, into *hdrhistogram.Histogram, w *works, seen *counts) error {
	batches := max(r.limits.busySegments*r.segment/pacedBatch, int(r.limits.busyTime/p.every))
	step := int64(segmentLife) * pacedBatch / int64(r.segment)
	before := w.now()
	if _, err := p.run(ctx, batches, into, func() { c.ahead.Add(step) }); err != nil {
		return fmt.Errorf("round with background work: %w", err)
	}
	seen.add(before, w.now())
	return nil
}

// paced commits batches at fixed times, whether or not earlier ones have been answered.
type paced struct {
	load  *load
	every time.Duration // 0: as fast as the store takes them
}

// run commits so many batches, records how long each took from the moment at which it was due, and returns
// how long all took. Where nobody was late, a batch is due at the moment of the call: that timers wake up late
// is not the store's fault.
func (p *paced) run(ctx context.Context, batches int, into *hdrhistogram.Histogram, done func()) (time.Duration, error) {
	first := p.load.next.Load()
	start := time.Now()
	var taken atomic.Int64
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for range pacedWorkers {
		group.Go(func() error {
			b, own := newBatch(pacedBatch), newHistogram()
			for {
				n := taken.Add(1) - 1
				if n >= int64(batches) {
					mu.Lock()
					defer mu.Unlock()
					into.Merge(own)
					return nil
				}
				b.fill(p.load, first+uint64(n)*pacedBatch, pacedBatch)
				due := p.await(start, n)
				if err := b.send(ctx, p.load, pacedBatch); err != nil {
					return err
				}
				if err := own.RecordValue(int64(time.Since(due))); err != nil {
					return err
				}
				if done != nil {
					done()
				}
			}
		})
	}
	err := group.Wait()
	p.load.next.Add(uint64(batches) * pacedBatch)
	return time.Since(start), err
}

// await waits for the time of the n-th batch and returns the moment from which it counts.
func (p *paced) await(start time.Time, n int64) time.Time {
	now := time.Now()
	if p.every == 0 {
		return now
	}
	due := start.Add(time.Duration(n) * p.every)
	if wait := due.Sub(now); wait > 0 {
		time.Sleep(wait)
		return time.Now()
	}
	return due
}

// works counts what a store does in the background, as its observer is told.
type works struct{ sealed, merged, expired atomic.Int64 }

func (w *works) observer() *onefold.Observer {
	return &onefold.Observer{Upkeep: func(e onefold.UpkeepEvent) {
		if e.Err != nil {
			return
		}
		switch e.Work {
		case "seal":
			w.sealed.Add(1)
		case "merge":
			w.merged.Add(1)
		case "expire":
			w.expired.Add(1)
		}
	}}
}

// counts are what was done from one moment to another.
type counts struct{ sealed, merged, expired int64 }

func (w *works) now() counts { return counts{w.sealed.Load(), w.merged.Load(), w.expired.Load()} }

func (c *counts) add(from, to counts) {
	c.sealed += to.sealed - from.sealed
	c.merged += to.merged - from.merged
	c.expired += to.expired - from.expired
}
