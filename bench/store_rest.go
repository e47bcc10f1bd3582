package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/onefold-go/onefold/store/boltstore"
)

// atRest is what a store needs while nobody uses it.
type atRest struct {
	storage    boltstore.Storage
	disk       int64
	perRecord  float64 // bytes of disk
	perMillion float64 // MB of memory, of sealed records
	full       probe   // of the store
	alike      probe   // of one with as many active records and nothing sealed
	empty      probe
	warm, cold time.Duration // from before Open to ready
}

// atRest judges memory, disk and opening.
func (r *storeRun) atRest(ctx context.Context) error {
	m, err := r.measureAtRest(ctx)
	if err != nil {
		return err
	}
	r.judge(fmt.Sprintf("memory for %s sealed records, beyond the active segment", short(int(m.storage.Sealed))),
		atMost(r.limits.memory, " MB a million"), m.perMillion,
		"RssAnon %.1f MB, HeapAlloc %.1f MB; %.1f and %.1f MB with the same %d active records alone; %.1f and %.1f MB empty; filters %.1f MB",
		megabytes(m.full.Anonymous), megabytes(m.full.Heap), megabytes(m.alike.Anonymous), megabytes(m.alike.Heap), m.storage.Active,
		megabytes(m.empty.Anonymous), megabytes(m.empty.Heap), megabytes(uint64(m.storage.FilterBytes)))
	r.judge("disk per record (32-byte ID, no effects, no result)", atMost(r.limits.disk, " bytes"), m.perRecord,
		"%.1f MB in all; sizes: main file %.1f MB, segments %.1f MB, indexes %.1f MB",
		megabytes(uint64(m.disk)), megabytes(uint64(m.storage.MainBytes)), megabytes(uint64(m.storage.SegmentBytes)),
		megabytes(uint64(m.storage.IndexBytes)))
	r.judge(fmt.Sprintf("open at %s, to the first answer of Begin", short(r.records)), atMost(r.limits.open, " s"), m.warm.Seconds(),
		"median of %d processes with the files cached; %.3g s with nothing cached; %.3g s empty; %d segments, indexes in tiers %v",
		probes, m.cold.Seconds(), m.empty.Ready.Seconds(), m.storage.Segments, m.storage.Tiers)
	return nil
}

// measureAtRest closes the store for a while and measures what other processes see of it.
func (r *storeRun) measureAtRest(ctx context.Context) (m atRest, err error) {
	m.storage = r.load.store.Storage()
	records := r.load.next.Load()
	if err := r.close(); err != nil {
		return m, err
	}
	if m.disk, err = allocated(r.dir); err != nil {
		return m, fmt.Errorf("size of the files: %w", err)
	}
	m.perRecord = float64(m.disk) / float64(records)
	if m.empty, err = r.probeSmall(ctx, 0); err != nil {
		return m, err
	}
	if m.alike, err = r.probeSmall(ctx, int(m.storage.Active)); err != nil {
		return m, err
	}
	cold, err := r.probeFull(ctx, func() error { return dropCache(r.dir) })
	if err != nil {
		return m, err
	}
	if err := fillCache(r.dir); err != nil {
		return m, err
	}
	m.full, err = r.probeFull(ctx, func() error { return nil })
	m.cold, m.warm = cold.Ready, m.full.Ready
	more := float64(m.full.Anonymous) - float64(m.alike.Anonymous)
	m.perMillion = more / 1e6 / (float64(m.storage.Sealed) / 1e6)
	return m, errors.Join(err, r.reopen(records))
}

// probeFull probes the store that grows.
func (r *storeRun) probeFull(ctx context.Context, before func() error) (probe, error) {
	return medianProbe(func() (probe, error) {
		if err := before(); err != nil {
			return probe{}, err
		}
		return askProbe(ctx, r.dir, r.segment)
	})
}

// probeSmall probes a new store of n records.
func (r *storeRun) probeSmall(ctx context.Context, n int) (p probe, err error) {
	dir := filepath.Join(r.work, "small")
	s, err := boltstore.Open(dir, r.options())
	if err != nil {
		return probe{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	_, err = newLoad(s, 0, retention).commit(ctx, n, nil)
	if err := errors.Join(err, s.Close(context.WithoutCancel(ctx))); err != nil {
		return probe{}, err
	}
	return medianProbe(func() (probe, error) { return askProbe(ctx, dir, r.segment) })
}

func megabytes(n uint64) float64 { return float64(n) / 1e6 }
