package boltstore_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/storetest"
)

// sealer is a store with small segments.
type sealer struct {
	*boltstore.Store
	t     testing.TB
	dir   string
	clock *storetest.Clock
	o     *boltstore.Options
	next  int // number of the next key
}

func newSealer(t testing.TB) *sealer {
	s := &sealer{t: t, dir: t.TempDir(), clock: storetest.NewClock()}
	s.o = boltstore.WithHooks(
		boltstore.Options{Clock: s.clock.Clock(), SegmentRecords: 100},
		boltstore.Hooks{PieceRecords: 30, TierFactor: 3, SweepEvery: time.Hour, EraseLag: time.Second},
	)
	s.open()
	return s
}

func (s *sealer) open() { s.Store = open(s.t, s.dir, s.o) }

func (s *sealer) reopen() {
	s.t.Helper()
	require.NoError(s.t, s.Close(context.Background()))
	s.open()
}

func numbered(i int) onefold.Key { return key(fmt.Sprintf("k%06d", i)) }

// fill commits records in batches of 20, until n are stored in all, and seals what is full.
func (s *sealer) fill(n int, effects ...onefold.Effect) {
	s.t.Helper()
	for s.next < n {
		var batch []*onefold.Commit
		for len(batch) < 20 && s.next < n {
			e := entry(numbered(s.next), effects...)
			e.Result = fmt.Appendf(nil, "result %d", s.next)
			batch = append(batch, &onefold.Commit{Entry: e})
			s.next++
		}
		require.NoError(s.t, s.Commit(context.Background(), batch))
		for _, c := range batch {
			require.NoError(s.t, c.Err)
		}
		// The writer freezes what is full between two groups.
		require.Eventually(s.t, func() bool { return s.Storage().Active < 100 }, time.Minute, time.Millisecond)
		s.KeepUp()
	}
}

// holds asserts that the keys from a number to another are done.
func (s *sealer) holds(from, to int) {
	s.t.Helper()
	ctx := context.Background()
	for i := from; i < to; i++ {
		g, err := s.Begin(ctx, request(numbered(i)))
		require.NoError(s.t, err)
		require.Equal(s.t, onefold.Done, g.Verdict, i)
		require.Equal(s.t, fmt.Sprintf("result %d", i), string(g.Record.Result))
	}
}

// files are the names of the immutable files with an ending.
func (s *sealer) files(ending string) (names []string) {
	s.t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.dir, "sealed"))
	require.NoError(s.t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ending) {
			names = append(names, filepath.Join(s.dir, "sealed", e.Name()))
		}
	}
	return names
}

func (s *sealer) scanned(what onefold.What) (ids []string) {
	s.t.Helper()
	for item, err := range s.Scan(context.Background(), onefold.Query{What: what}) {
		require.NoError(s.t, err)
		ids = append(ids, item.Record.Key.ID)
	}
	return ids
}

func TestSealedRecordsAnswerLikeOthers(t *testing.T) {
	s := newSealer(t)
	s.fill(1050)
	v := s.Storage()
	assert.Equal(t, 10, v.Segments)
	assert.Equal(t, []int{1, 0, 1}, v.Tiers, "merged by three")
	assert.EqualValues(t, 1000, v.Sealed)
	assert.EqualValues(t, 50, v.Active)
	assert.Zero(t, v.Frozen)
	assert.Len(t, s.files(".seg"), 10)
	assert.Len(t, s.files(".idx"), 2)
	for range 2 {
		s.holds(0, 1050)
		want := make([]string, 1050)
		for i := range want {
			want[i] = numbered(i).ID
		}
		assert.Equal(t, want, s.scanned(onefold.WhatRecords))
		st, err := s.Stats(context.Background())
		require.NoError(t, err)
		assert.EqualValues(t, 1050, st.Records)
		g, err := s.Begin(context.Background(), request(key("fresh")))
		require.NoError(t, err)
		assert.Equal(t, onefold.Granted, g.Verdict)
		r := request(numbered(5))
		r.Fingerprint = onefold.Fingerprint{Version: 1, Sum: [16]byte{9}}
		_, err = s.Begin(context.Background(), r)
		require.NoError(t, err)
		s.reopen()
	}
}

func TestExpiredSegmentsGiveTheirRoomBack(t *testing.T) {
	s := newSealer(t)
	s.fill(500)
	s.clock.Advance(30 * time.Minute)
	s.fill(900)
	require.Len(t, s.files(".seg"), 9)
	s.clock.Advance(31 * time.Minute)
	s.KeepUp()
	assert.Len(t, s.files(".seg"), 4, "those of the second half")
	s.holds(500, 900)
	for i := range 500 {
		_, err := s.Lookup(context.Background(), numbered(i))
		require.ErrorIs(t, err, onefold.ErrNotFound)
	}
	s.clock.Advance(time.Hour)
	s.fill(901)
	s.clock.Advance(time.Hour)
	s.fill(902)
	s.KeepUp()
	assert.LessOrEqual(t, len(s.files(".seg")), 1)
	s.reopen()
	s.holds(901, 902)
}

func TestASegmentStaysWhileAnEffectOfItIsUnsettled(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	s.fill(101, onefold.Effect{ID: "1", Kind: onefold.KindMessage, Target: "x"})
	s.fill(121)
	s.clock.Advance(2 * time.Hour)
	s.fill(122)
	require.NotEmpty(t, s.files(".seg"))
	s.holds(0, 101)
	feed, err := s.Feed(ctx, time.Hour)
	require.NoError(t, err)
	rows, err := feed.Next(ctx, 200)
	require.NoError(t, err)
	require.Len(t, rows, 101)
	var settled []onefold.Settlement
	for _, r := range rows {
		settled = append(settled, onefold.Settlement{Row: r, State: onefold.Sent})
	}
	require.NoError(t, s.Settle(ctx, settled))
	s.KeepUp()
	_, err = s.Lookup(ctx, numbered(0))
	require.ErrorIs(t, err, onefold.ErrNotFound)
	s.clock.Advance(2 * time.Hour)
	s.fill(123)
	s.KeepUp()
	assert.Empty(t, s.files(".seg"))
}

func TestAnErasedRecordLeavesItsSegmentFile(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	s.fill(350)
	s.KeepUp()
	require.Len(t, s.files(".seg"), 3)
	require.NoError(t, s.Erase(ctx, numbered(150)))
	require.NoError(t, s.Erase(ctx, numbered(150)), "again")
	erased := func() {
		t.Helper()
		g, err := s.Begin(ctx, request(numbered(150)))
		require.NoError(t, err)
		require.Equal(t, onefold.Done, g.Verdict)
		require.True(t, g.Record.Erased)
		require.Empty(t, g.Record.Result)
		require.False(t, g.Record.ResultKept)
		require.NotContains(t, s.scanned(onefold.WhatRecords), numbered(150).ID)
		require.Len(t, s.scanned(onefold.WhatRecords), 350)
	}
	erased()
	assert.Equal(t, 1, s.Storage().Erased)
	s.reopen()
	erased()
	s.clock.Advance(time.Minute)
	s.KeepUp()
	assert.Zero(t, s.Storage().Erased)
	erased()
	for _, path := range s.files("") {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.False(t, bytes.Contains(b, []byte(numbered(150).ID)), path)
	}
	s.reopen()
	erased()
	s.holds(0, 150)
	s.holds(151, 350)
	require.ErrorIs(t, s.Erase(ctx, key("never")), onefold.ErrNotFound)
}

func TestAKeyThatExpiredInASegmentRunsAgainAndIsFoundAtItsNewPlace(t *testing.T) {
	s := newSealer(t)
	s.fill(250)
	s.clock.Advance(2 * time.Hour)
	s.next = 0
	s.fill(250)
	s.holds(0, 250)
	s.reopen()
	s.holds(0, 250)
}

func TestFilesThatDoNotCountAreRemovedAtOpen(t *testing.T) {
	s := newSealer(t)
	s.fill(250)
	counted := s.files("")
	require.NoError(t, s.Close(context.Background()))
	for _, name := range []string{"000000000001-000000000002-aabbccdd.seg", "000000000001-000000000002-aabbccdd.idx.new", "x.seg.new"} {
		write(t, filepath.Join(s.dir, "sealed", name), "cut short")
	}
	write(t, filepath.Join(s.dir, "sealed", "README"), "of somebody else")
	s.open()
	s.holds(0, 250)
	assert.ElementsMatch(t, append(counted, filepath.Join(s.dir, "sealed", "README")), s.files(""))
}

func TestAMainFileOlderThanTheSegmentsIsNamed(t *testing.T) {
	s := newSealer(t)
	s.fill(50)
	require.NoError(t, s.Close(context.Background()))
	old, err := os.ReadFile(filepath.Join(s.dir, "main.db"))
	require.NoError(t, err)
	mark, err := os.ReadFile(filepath.Join(s.dir, "STORE"))
	require.NoError(t, err)
	s.open()
	s.fill(250)
	require.NoError(t, s.Close(context.Background()))
	write(t, filepath.Join(s.dir, "main.db"), string(old))
	write(t, filepath.Join(s.dir, "STORE"), string(mark))
	_, err = boltstore.Open(s.dir, s.o)
	require.ErrorIs(t, err, onefold.ErrDamaged)
	require.ErrorContains(t, err, "main.db is an older copy")
	assert.NotEmpty(t, s.files(".seg"), "nothing is removed")
}

func TestMissingAndSwappedSegmentFilesAreNamed(t *testing.T) {
	s := newSealer(t)
	s.fill(450)
	require.NoError(t, s.Close(context.Background()))
	other := newSealer(t)
	other.fill(450)
	require.NoError(t, other.Close(context.Background()))
	segments, indexes := s.files(".seg"), s.files(".idx")
	for _, c := range []struct {
		name   string
		damage func(path string)
		path   string
		want   string
	}{
		{"missing segment", func(path string) { require.NoError(t, os.Remove(path)) }, segments[1], "is missing, the segment of positions"},
		{"missing index", func(path string) { require.NoError(t, os.Remove(path)) }, indexes[0], "is missing, the index of positions"},
		{"another segment", func(path string) { copyFile(t, segments[0], path) }, segments[1], "it is the segment of positions"},
		{"of another store", func(path string) { copyFile(t, other.files(".seg")[0], path) }, segments[0], "it belongs to store"},
		{"an index for a segment", func(path string) { copyFile(t, indexes[0], path) }, segments[0], "it is an index"},
		{"cut off", func(path string) { require.NoError(t, os.Truncate(path, 20_000)) }, segments[0], "damaged"},
		{"grown", func(path string) { require.NoError(t, os.Truncate(path, 1<<20)) }, segments[0], "and should have"},
		{"empty", func(path string) { require.NoError(t, os.Truncate(path, 0)) }, segments[2], "damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, err := os.ReadFile(c.path)
			require.NoError(t, err)
			c.damage(c.path)
			_, err = boltstore.Open(s.dir, s.o)
			require.ErrorIs(t, err, onefold.ErrDamaged)
			require.ErrorContains(t, err, filepath.Base(c.path))
			require.ErrorContains(t, err, c.want)
			write(t, c.path, string(before))
		})
	}
	s.open()
	s.holds(0, 450)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	write(t, to, string(b))
}

func TestADamagedBlockFailsItsKeysByNameAndNoOthers(t *testing.T) {
	s := newSealer(t)
	s.fill(120)
	require.NoError(t, s.Close(context.Background()))
	path := s.files(".seg")[0]
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.Index(b, []byte(numbered(50).ID))
	require.Positive(t, at)
	b[at] ^= 1
	write(t, path, string(b))
	s.open()
	_, err = s.Begin(context.Background(), request(numbered(50)))
	require.ErrorIs(t, err, onefold.ErrDamaged)
	require.ErrorContains(t, err, filepath.Base(path))
	s.holds(100, 120)
	s.fill(130)
	s.holds(120, 130)
}

func TestAStoreOfOnePieceIsSealedToo(t *testing.T) {
	// As a store of format 1 has it: all records in the piece that begins at position 1.
	s := newSealer(t)
	require.NoError(t, s.Close(context.Background()))
	s.o = boltstore.WithHooks(*s.o, boltstore.Hooks{PieceRecords: 1 << 30, SweepEvery: time.Hour})
	s.open()
	s.fill(90)
	s.reopen()
	s.fill(150)
	s.KeepUp()
	assert.Equal(t, 1, s.Storage().Segments)
	s.holds(0, 150)
	assert.True(t, slices.IsSorted(s.scanned(onefold.WhatRecords)))
}
