package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// growth fills the store and compares the rate of its second half with that of the first records.
func (r *storeRun) growth(ctx context.Context) error {
	half := r.records / 2
	firsts, err := r.freshRates(ctx, nil, r.segment, 1)
	if err != nil {
		return err
	}
	early, err := r.leg(ctx, half)
	if err != nil {
		return err
	}
	if firsts, err = r.freshRates(ctx, firsts, r.segment, 1); err != nil {
		return err
	}
	r.meter.reset()
	var took time.Duration
	for i := range r.limits.legs {
		n := (r.records-half)*(i+1)/r.limits.legs - (r.records-half)*i/r.limits.legs
		leg, err := r.leg(ctx, n)
		if err != nil {
			return err
		}
		took += leg
		if firsts, err = r.freshRates(ctx, firsts, r.segment, 1); err != nil {
			return err
		}
	}
	overall, first := perSecond(r.records-half, took), median(firsts)
	what := fmt.Sprintf("commits/s from %s to %s live records, sealing and merging included / first %s",
		short(half), short(r.records), short(r.segment))
	r.judge(what, atLeast(r.limits.growth), overall/first,
		"%s overall, median of windows of %s %s; first %s: median %s of %d stores, %s to %s; first half of the growth %s",
		thousands(overall), short(r.segment), thousands(median(r.meter.windows())), short(r.segment), thousands(first), len(firsts),
		thousands(slices.Min(firsts)), thousands(slices.Max(firsts)), thousands(perSecond(half, early)))
	return nil
}

// leg lets the store grow by n records and returns how long that took, up to the end of the background work.
func (r *storeRun) leg(ctx context.Context, n int) (time.Duration, error) {
	if err := calmDisk(r.work); err != nil {
		return 0, err
	}
	r.meter.begin()
	start := time.Now()
	took, err := r.load.commit(ctx, n, r.meter.add)
	if err != nil {
		return 0, err
	}
	end, err := settle(ctx, r.load.store)
	return max(took, end.Sub(start)), err
}

// freshRates adds the rates of some new stores to rates.
func (r *storeRun) freshRates(ctx context.Context, rates []float64, records, stores int) ([]float64, error) {
	for range stores {
		rate, err := r.fresh(ctx, records)
		if err != nil {
			return nil, fmt.Errorf("first records: %w", err)
		}
		rates = append(rates, rate)
	}
	return rates, nil
}

// steady compares commits to the full store while nothing is sealed with commits to a new one.
func (r *storeRun) steady(ctx context.Context) error {
	n := r.segment * 2 / 5
	var fulls, firsts []float64
	for range r.limits.rounds {
		first, err := r.fresh(ctx, n)
		if err != nil {
			return fmt.Errorf("first records: %w", err)
		}
		var full float64
		err = r.load.undisturbed(ctx, r.segment, n, func() error {
			if err := calmDisk(r.work); err != nil {
				return err
			}
			took, err := r.load.commit(ctx, n, nil)
			full = perSecond(n, took)
			return err
		})
		if err != nil {
			return err
		}
		fulls, firsts = append(fulls, full), append(firsts, first)
	}
	r.judge(fmt.Sprintf("commits/s at %s, no sealing under way / at 0", short(r.records)), atLeast(r.limits.steady),
		median(fulls)/median(firsts), "medians of %d alternating rounds of %s: %s, %s to %s; at 0 %s, %s to %s",
		r.limits.rounds, short(n), thousands(median(fulls)), thousands(slices.Min(fulls)), thousands(slices.Max(fulls)),
		thousands(median(firsts)), thousands(slices.Min(firsts)), thousands(slices.Max(firsts)))
	return nil
}

// hundredMillion lets the store grow on and reports on what it then is.
func (r *storeRun) hundredMillion(ctx context.Context) error {
	before := int(r.load.next.Load())
	took, err := r.leg(ctx, hundredRecords-before)
	if err != nil {
		return err
	}
	rate := perSecond(hundredRecords-before, took)
	rest, err := r.measureAtRest(ctx)
	if err != nil {
		return err
	}
	r.rows = append(r.rows, tell("100 M live records", fmt.Sprintf(
		"%s from %s on, sealing and merging included; %.2f MB of memory a million; %.1f bytes on disk a record, %.1f GB in all; open %v, "+
			"%v with nothing cached; indexes in tiers %v",
		thousands(rate), short(before), rest.perMillion, rest.perRecord, float64(rest.disk)/1e9,
		rest.warm.Round(time.Millisecond), rest.cold.Round(time.Millisecond), rest.storage.Tiers)))
	return nil
}
