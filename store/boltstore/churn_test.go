package boltstore_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/storetest"
)

// Somebody else fills a segment with every so many commits of a case.
const (
	churnRecords = 1000
	churnEvery   = 50
)

// churned is a store that somebody else uses as well: every now and then a segment's worth of records comes in. After
// each commit, what is due in the background is done. The conformance suite sees nothing of it.
type churned struct {
	keeping
	next    *atomic.Int64 // number of the next record of somebody else
	commits *atomic.Int64
}

const churnScope = "somebody else"

func (c churned) Commit(ctx context.Context, batch []*onefold.Commit) error {
	if c.commits.Add(1)%churnEvery == 0 && ctx.Err() == nil {
		c.churn()
	}
	return c.keeping.Commit(ctx, batch)
}

func (c churned) churn() {
	batch := make([]*onefold.Commit, churnRecords)
	for i := range batch {
		k := onefold.Key{Scope: churnScope, ID: fmt.Sprint(c.next.Add(1))}
		batch[i] = &onefold.Commit{Entry: onefold.Entry{Key: k, Outcome: onefold.Succeeded, Retain: 10 * time.Minute}}
	}
	if c.Store.Commit(context.Background(), batch) != nil {
		return // closed, which is what some cases are about
	}
	for _, one := range batch {
		if one.Err != nil {
			return
		}
	}
}

func (c churned) Scan(ctx context.Context, q onefold.Query) iter.Seq2[onefold.Item, error] {
	if q.What != onefold.WhatRecords || q.Limit < 0 {
		return c.Store.Scan(ctx, q)
	}
	return func(yield func(onefold.Item, error) bool) {
		left := q.Limit
		q.Limit = 0
		for item, err := range c.Store.Scan(ctx, q) {
			if err == nil && item.Record.Key.Scope == churnScope {
				continue
			}
			if !yield(item, err) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// Stats counts the records of the case alone.
func (c churned) Stats(ctx context.Context) (onefold.Stats, error) {
	st, err := c.Store.Stats(ctx)
	if err != nil {
		return st, err
	}
	st.Records = 0
	for _, err := range c.Scan(ctx, onefold.Query{What: onefold.WhatRecords}) {
		if err != nil {
			return st, err
		}
		st.Records++
	}
	return st, nil
}

// TestConformanceWhileSegmentsOfAThousandComeAndGo runs the suite beside a user who fills segments, with hashes of
// 8 bits: each key of a case has the hash of some records of each segment.
func TestConformanceWhileSegmentsOfAThousandComeAndGo(t *testing.T) {
	seen := &events{}
	h := harness(boltstore.Options{SegmentRecords: churnRecords, Observer: seen.observer()}, boltstore.Hooks{
		HashBits: 8, PieceRecords: 300, TierFactor: 2, SweepEvery: time.Hour,
	})
	whole := h.Open
	h.Open = func(t testing.TB, clock onefold.Clock) storetest.Instance {
		i := whole(t, clock)
		// These are about the next write, which may be one of somebody else.
		i.FailCommits, i.HoldCommits = nil, nil
		next, commits := &atomic.Int64{}, &atomic.Int64{}
		wrap := func(s onefold.Store) churned { return churned{keeping{s.(*boltstore.Store)}, next, commits} }
		reopen := i.Reopen
		i.Reopen = func(t testing.TB, clean bool) onefold.Store { return wrap(reopen(t, clean)) }
		first := wrap(i.Store)
		for range 2 { // as many as merge
			first.churn()
			first.KeepUp()
		}
		require.Positive(t, first.Storage().Segments)
		i.Store = first
		return i
	}
	t.Run("", func(t *testing.T) { storetest.Run(t, h) }) // ends when all its parallel parts have ended
	for _, what := range []string{"seal", "drop", "merge", "expire"} {
		assert.NotEmpty(t, seen.of(what), what)
	}
}
