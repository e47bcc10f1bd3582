package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/onefold-go/onefold/store/boltstore"
)

const storeMethod = `store/boltstore alone. Records have IDs of 32 bytes, no effects and no result, and
live for 24 hours; 4 goroutines commit them without claims in batches of 1024, so that the writer never
waits for work. One store grows to the full number of records. The growth of its second half is timed in
legs, each up to the moment when its background work has ended. Before, between and after the legs a new
store takes one segment's worth of records: the median of these rates is what growth is compared with, so
that a machine that changes its speed changes both. Commits without sealing are compared in rounds that
alternate between the full store and a new one; a round in which something was sealed does not count. Memory
and opening are measured in child processes; memory is what a store with as many active records and nothing
sealed does not need (RssAnon, after garbage was given back). Disk is allocated blocks of all files.
Look-ups are calls of Begin one by one, at random over all records. The latency of commits is measured on
another store at half of its highest rate, in rounds with and without background work; in the former the
store's clock is moved on with the records, so that a segment expires for each that is sealed. A
commit counts from the moment at which it was due.`

// storeLimits are the bars of the store, and how much is measured for them. A bar of 0 is reported only.
type storeLimits struct {
	growth, steady float64 // ratios of rates
	memory         float64 // MB a million records
	disk           float64 // bytes a record
	open           float64 // seconds
	latency        float64 // ratio of p99
	lookup         float64 // us, p99

	legs, rounds int // of growth, and of commits without sealing
	lookups      int
	busyRounds   int           // of latency
	busySegments int           // committed in each of them, at least
	busyTime     time.Duration // of each of them, at least: the store looks for what has expired every few seconds
}

// fullStore are the bars as they are promised.
func fullStore() storeLimits {
	return storeLimits{
		growth: 0.7, steady: 0.95, memory: 1.5, disk: 130, open: 0.5, latency: 2, lookup: 20,
		legs: 2, rounds: 7, lookups: 1_000_000, busyRounds: 3, busySegments: 10, busyTime: 11 * time.Second,
	}
}

// shortStore are wide bars, for a run in which segments are so small that their fixed costs (files, syncs,
// half-filled pages) outweigh the rest. They find what is slower by its nature, not what is slower by a third.
// Memory is not judged: its difference is less than what two processes differ by anyway.
func shortStore() storeLimits {
	return storeLimits{
		growth: 0.15, steady: 0.25, disk: 400, open: 2, latency: 20, lookup: 200,
		legs: 3, rounds: 5, lookups: 50_000, busyRounds: 1, busySegments: 4, busyTime: 6 * time.Second,
	}
}

func storeExperiment() experiment {
	return experiment{
		name: "store", about: "the embedded store alone, empty and with many live records", method: storeMethod,
		bytes: storeBytes, run: runStore,
	}
}

// storeBytes is the room that a run needs: what one record takes until the merge that holds it is over,
// for all live records and the segments of the small stores.
func storeBytes(s settings) uint64 {
	const bytesPerRecord, segmentsBesides = 200, 40
	records := s.records
	if s.hundred {
		records = hundredRecords
	}
	return uint64(records+segmentsBesides*s.segment) * bytesPerRecord
}

// storeRun is one run of the experiment.
type storeRun struct {
	*bench
	limits storeLimits
	dir    string // of the store that grows
	load   *load  // on it
	meter  *meter
	rows   []row
}

func runStore(ctx context.Context, b *bench) ([]row, error) {
	r := &storeRun{bench: b, limits: fullStore(), dir: filepath.Join(b.work, "full")}
	lines := 1_000_000
	if b.short {
		r.limits, lines = shortStore(), 100_000
	}
	r.meter = &meter{window: b.segment, step: lines, say: func(total int) {
		b.log.Printf("%s records", humanize.Comma(int64(total)))
	}}
	type step struct {
		name string
		do   func(context.Context) error
	}
	steps := []step{
		{"growth", r.growth}, {"memory and opening", r.atRest}, {"look-ups", r.lookups},
		{"commits without sealing", r.steady}, {"latency of commits", r.latency},
	}
	if b.hundred {
		steps = append(steps, step{"100 million records", r.hundredMillion})
	}
	err := r.reopen(0)
	for i := 0; err == nil && i < len(steps); i++ {
		b.log.Print(steps[i].name)
		if err = steps[i].do(ctx); err != nil {
			err = fmt.Errorf("%s: %w", steps[i].name, err)
		}
	}
	return r.rows, errors.Join(err, r.close())
}

func (r *storeRun) options() *boltstore.Options {
	return &boltstore.Options{SegmentRecords: r.segment}
}

// reopen opens the store that grows; its next record is number next.
func (r *storeRun) reopen(next uint64) error {
	s, err := boltstore.Open(r.dir, r.options())
	if err != nil {
		return err
	}
	r.load = newLoad(s, next, retention)
	return nil
}

// close closes the store that grows.
func (r *storeRun) close() error {
	if r.load == nil {
		return nil
	}
	s := r.load.store
	r.load = nil
	return s.Close(context.Background())
}

func (r *storeRun) judge(what string, b bar, value float64, details string, args ...any) {
	if b.limit == 0 {
		b = bar{unit: b.unit}
	}
	r.rows = append(r.rows, judge(what, b, value, fmt.Sprintf(details, args...)))
}

// fresh measures how fast a new store takes its first n records.
func (r *storeRun) fresh(ctx context.Context, n int) (rate float64, err error) {
	dir := filepath.Join(r.work, "fresh")
	s, err := boltstore.Open(dir, r.options())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close(context.Background()), os.RemoveAll(dir)) }()
	if err := calmDisk(r.work); err != nil {
		return 0, err
	}
	took, err := newLoad(s, 0, retention).commit(ctx, n, nil)
	return perSecond(n, took), err
}

// thousands shows a rate.
func thousands(perSecond float64) string { return fmt.Sprintf("%.0f k/s", perSecond/1000) }

// short names a number of records.
func short(n int) string { return humanize.SIWithDigits(float64(n), 1, "") }
