package boltstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// goldenClock stands still, so that a golden store does not depend on when it is opened.
func goldenClock() onefold.Clock {
	wall := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	return onefold.Clock{Wall: func() time.Time { return wall }, Mono: func() time.Duration { return time.Hour }}
}

func goldenEffect(id, target string) onefold.Effect {
	return onefold.Effect{ID: id, Kind: onefold.KindMessage, Target: target, Payload: []byte(target), Header: onefold.Header{"H": {"v"}}}
}

// makeGolden writes one of everything that a store of this version holds.
func makeGolden(t *testing.T, dir string) {
	ctx := context.Background()
	s, err := Open(dir, &Options{Clock: goldenClock(), MmapBytes: 32 << 10})
	require.NoError(t, err)
	key := func(id string) onefold.Key { return onefold.Key{Scope: "ORDERS/billing", ID: id} }
	timer := goldenEffect("id-timer", "timer")
	timer.Timer, timer.NotBefore = "deadline", goldenClock().Wall().Add(time.Hour)
	ordered := goldenEffect("id-ordered", "ordered")
	ordered.OrderKey = "o"
	batch := []*onefold.Commit{
		{Entry: onefold.Entry{Key: key("plain"), Outcome: onefold.Succeeded, Retain: time.Hour, Result: []byte("result")}},
		{Entry: onefold.Entry{Key: longKey(), Outcome: onefold.DeadLettered, Retain: time.Hour}},
		{Entry: onefold.Entry{Key: key("erased"), Outcome: onefold.Succeeded, Retain: time.Hour, Result: []byte("secret")}},
		{Entry: onefold.Entry{Key: key("rows"), Outcome: onefold.Succeeded, Retain: time.Hour, Effects: []onefold.Effect{
			goldenEffect("id-parked", "parked"), goldenEffect("id-delayed", "delayed"), goldenEffect("id-waiting", "waiting"), timer, ordered,
		}}},
		{Entry: onefold.Entry{Writes: []onefold.Write{
			{Table: "t", Key: "for ever", Value: []byte("1")}, {Table: "t", Key: "for an hour", Value: []byte("2"), Retain: time.Hour},
		}}},
	}
	require.NoError(t, s.Commit(ctx, batch))
	for _, c := range batch {
		require.NoError(t, c.Err)
	}
	require.NoError(t, s.Erase(ctx, key("erased")))
	g, err := s.Begin(ctx, onefold.Request{Key: key("failed"), Lease: time.Minute, Holder: onefold.Holder{Process: 1}, Durable: true})
	require.NoError(t, err)
	require.NoError(t, s.Release(ctx, g.Claim, onefold.Failure{Reason: "boom", Counted: true}))
	f, err := s.Feed(ctx, time.Minute)
	require.NoError(t, err)
	rows, err := f.Next(ctx, 2)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.NoError(t, s.Settle(ctx, []onefold.Settlement{
		{Row: rows[0], State: onefold.Parked, Hold: true, Reason: "poison"},
		{Row: rows[1], State: onefold.Delayed, At: goldenClock().Wall().Add(time.Minute), Reason: "later"},
	}))
	require.NoError(t, s.Close(ctx))
}

func TestStoresOfEveryFormatVersionAreReadable(t *testing.T) {
	if *update {
		present := goldenDir(FormatVersion)
		for _, name := range []string{mainFile, storeFile} {
			require.NoError(t, os.RemoveAll(filepath.Join(present, name)))
		}
		require.NoError(t, os.MkdirAll(present, 0o755))
		aside := t.TempDir()
		makeGolden(t, aside)
		copyStore(t, aside, present)
		cutReserve(t, filepath.Join(present, mainFile))
	}
	for version := 1; version <= FormatVersion; version++ {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			dir := t.TempDir()
			copyStore(t, goldenDir(version), dir)
			readGolden(t, dir)
			mark, _, err := readStoreMark(dir)
			require.NoError(t, err)
			assert.Equal(t, uint32(FormatVersion), mark.format)
			s := opened(t, dir, &Options{Clock: goldenClock()})
			assert.Equal(t, uint64(3), s.Info().Epoch, "it opens again")
		})
	}
}

// readGolden looks at all that makeGolden has written.
func readGolden(t *testing.T, dir string) {
	ctx := context.Background()
	s, err := Open(dir, &Options{Clock: goldenClock()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close(ctx)) }()
	assert.True(t, s.Info().Clean)
	assert.Equal(t, uint64(2), s.Info().Epoch)

	key := func(id string) onefold.Key { return onefold.Key{Scope: "ORDERS/billing", ID: id} }
	r, err := s.Lookup(ctx, key("plain"))
	require.NoError(t, err)
	assert.Equal(t, "result", string(r.Result))
	assert.True(t, r.At.Equal(goldenClock().Wall()))
	r, err = s.Lookup(ctx, longKey())
	require.NoError(t, err)
	assert.Equal(t, onefold.DeadLettered, r.Outcome)
	r, err = s.Lookup(ctx, key("erased"))
	require.NoError(t, err)
	assert.True(t, r.Erased)
	assert.False(t, r.ResultKept)
	r, err = s.Lookup(ctx, key("rows"))
	require.NoError(t, err)
	assert.Equal(t, 5, r.Unsettled)
	for name, want := range map[string]string{"for ever": "1", "for an hour": "2"} {
		v, err := s.Read(ctx, "t", name)
		require.NoError(t, err)
		assert.Equal(t, want, string(v.Data), name)
	}
	g, err := s.Begin(ctx, onefold.Request{Key: key("failed"), Lease: time.Minute, Holder: onefold.Holder{Process: 2}})
	require.NoError(t, err)
	assert.Equal(t, onefold.History{Starts: 1, Failures: 1, First: goldenClock().Wall(), LastReason: "boom"}, g.History)
	for item, err := range s.Scan(ctx, onefold.Query{What: onefold.WhatParked}) {
		require.NoError(t, err)
		assert.Equal(t, "poison", item.Reason)
		assert.Equal(t, "id-parked", item.Row.Effect.ID)
	}
	st, err := s.Stats(ctx)
	require.NoError(t, err)
	assert.Equal(t, uint64(2), st.Attention, "a dead letter and a parked row")
	f, err := s.Feed(ctx, time.Minute)
	require.NoError(t, err)
	rows, err := f.Next(ctx, 10)
	require.NoError(t, err)
	require.Len(t, rows, 2, "the others are parked, delayed and not due")
	assert.Equal(t, goldenEffect("id-waiting", "waiting"), rows[0].Effect)
	assert.Equal(t, "o", rows[1].Effect.OrderKey)
}

// cutReserve takes off what the file has beyond its last page.
func cutReserve(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	found, err := surveyFile(f, info.Size())
	require.NoError(t, err)
	require.NoError(t, f.Truncate(int64(found.pages)*found.page))
	require.NoError(t, f.Close())
}

// copyStore copies the files of a store's directory.
func copyStore(t *testing.T, from, to string) {
	t.Helper()
	for _, name := range []string{mainFile, storeFile} {
		b, err := os.ReadFile(filepath.Join(from, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, name), b, 0o644))
	}
}
