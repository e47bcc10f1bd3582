package sealed

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/FastFilter/xorfilter"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

func admitAll(*os.File) error { return nil }

func recordOf(position uint64) []byte {
	return fmt.Appendf(nil, "%0*d", 40+int(position%97), position)
}

// segment writes a segment file with every third position.
func segment(t testing.TB, first, end uint64, record func(uint64) []byte) *Records {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.seg")
	w, err := CreateRecords(path, Head{First: first, End: end, Store: [16]byte{1}, Expires: time.Hour})
	require.NoError(t, err)
	for p := first + 1; p < end; p += 3 {
		require.NoError(t, w.Add(p, record(p)))
	}
	head, size, err := w.Finish()
	require.NoError(t, err)
	r, err := OpenRecords(path, admitAll)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	assert.Equal(t, head, *r.Head())
	assert.Equal(t, size, r.Size())
	assert.NoFileExists(t, path+Aside)
	return r
}

func TestASegmentHasTheRecordsThatWereAddedAndNoOthers(t *testing.T) {
	r := segment(t, 1000, 40_000, recordOf)
	assert.EqualValues(t, 13_000, r.Head().Records)
	for p := uint64(1000); p < 40_000; p++ {
		got, err := r.Get(p)
		require.NoError(t, err)
		if p > 1000 && (p-1001)%3 == 0 {
			require.Equal(t, recordOf(p), got, p)
		} else {
			require.Nil(t, got, p)
		}
	}
	_, err := r.Get(999)
	require.ErrorIs(t, err, onefold.ErrDamaged, "the caller looks in the wrong segment")
}

func TestASegmentIsVisitedInOrderFromAnyPosition(t *testing.T) {
	r := segment(t, 1, 5000, recordOf)
	for _, from := range []uint64{1, 2, 3, 777, 4998, 4999, 5000} {
		var seen []uint64
		for at := from; at < 5000; {
			next, err := r.From(at, func(p uint64, record []byte) error {
				assert.Equal(t, recordOf(p), record)
				seen = append(seen, p)
				return nil
			})
			require.NoError(t, err)
			require.Greater(t, next, at)
			at = next
		}
		var want []uint64
		for p := uint64(2); p < 5000; p += 3 {
			if p >= from {
				want = append(want, p)
			}
		}
		require.Equal(t, want, seen, from)
	}
}

func TestRecordsLargerThanAPageAreKept(t *testing.T) {
	large := func(p uint64) []byte { return slices.Repeat(recordOf(p), int(p%7)*300+1) }
	r := segment(t, 1, 400, large)
	for p := uint64(2); p < 400; p += 3 {
		got, err := r.Get(p)
		require.NoError(t, err)
		require.Equal(t, large(p), got)
	}
}

func TestASegmentRefusesPositionsOutOfOrderOrRange(t *testing.T) {
	w, err := CreateRecords(filepath.Join(t.TempDir(), "a.seg"), Head{First: 10, End: 20})
	require.NoError(t, err)
	defer w.Abort()
	require.Error(t, w.Add(9, nil))
	require.NoError(t, w.Add(10, nil))
	require.Error(t, w.Add(10, nil))
	require.Error(t, w.Add(20, nil))
}

// index writes an index of entries.
func index(t testing.TB, entries []Entry) *Index {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.idx")
	w, err := CreateIndex(path, Head{First: 1, End: 1 << 40, Records: uint64(len(entries))})
	require.NoError(t, err)
	entries, err = Sort(entries, func() error { return nil })
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, w.Add(e))
	}
	_, _, err = w.Finish()
	require.NoError(t, err)
	return openedIndex(t, path)
}

func openedIndex(t testing.TB, path string) *Index {
	t.Helper()
	x, err := OpenIndex(path, admitAll)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, x.Close()) })
	return x
}

func entriesOf(seed uint64, n int, mask uint64) []Entry {
	random := rand.New(rand.NewPCG(seed, 1))
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Entry{random.Uint64() & mask, seed<<32 + uint64(i)}
	}
	return entries
}

const (
	whole   = ^uint64(0)
	topByte = uint64(0xff) << 56
)

func TestAnIndexFindsAllPositionsOfAHashNewestFirst(t *testing.T) {
	for _, mask := range []uint64{whole, topByte, 0, 1 << 63} {
		for _, n := range []int{1, 2, 3, 10, 1000, 20_000} {
			t.Run(fmt.Sprintf("%x/%d", mask, n), func(t *testing.T) {
				entries := entriesOf(7, n, mask)
				x := index(t, entries)
				want := map[uint64][]uint64{}
				for _, e := range slices.Backward(entries) {
					want[e.Hash] = append(want[e.Hash], e.Position)
				}
				for hash, positions := range want {
					require.True(t, x.MayHave(hash))
					got, err := x.Find(nil, hash)
					require.NoError(t, err)
					require.Equal(t, positions, got)
				}
				got, err := x.Find(nil, 0x1234567)
				require.NoError(t, err)
				require.Empty(t, got)
			})
		}
	}
}

func TestAFilterRejectsMostHashesThatAreNotThere(t *testing.T) {
	x := index(t, entriesOf(3, 50_000, whole))
	random, hits := rand.New(rand.NewPCG(9, 9)), 0
	for range 100_000 {
		if x.MayHave(random.Uint64()) {
			hits++
		}
	}
	assert.Less(t, hits, 1000)
	assert.Less(t, x.bank.Bytes(), int64(70_000))
}

func TestAFilterOfSeveralShardsHasAllHashes(t *testing.T) {
	entries := entriesOf(5, 3*shardHashes, whole)
	x := index(t, entries)
	require.Greater(t, len(x.bank.shards), 1)
	for _, e := range entries {
		require.True(t, x.MayHave(e.Hash))
	}
}

func TestAMergedIndexHasTheEntriesOfAllThatAreKept(t *testing.T) {
	for _, mask := range []uint64{whole, topByte} {
		var from []*Index
		want := map[uint64][]uint64{}
		for i, n := range []int{10_000, 100, 1, 5000} {
			entries := entriesOf(uint64(i+1), n, mask)
			from = append(from, index(t, entries))
			for _, e := range entries {
				if e.Position%2 == 0 {
					want[e.Hash] = append(want[e.Hash], e.Position)
				}
			}
		}
		path := filepath.Join(t.TempDir(), "m.idx")
		w, err := CreateIndex(path, Head{First: 1, End: 1 << 40, Records: 15_101})
		require.NoError(t, err)
		require.NoError(t, Merge(w, from, func(p uint64) bool { return p%2 == 0 }, func() error { return nil }))
		_, _, err = w.Finish()
		require.NoError(t, err)
		x := openedIndex(t, path)
		total := 0
		for hash, positions := range want {
			slices.SortFunc(positions, func(a, b uint64) int { return int(b) - int(a) })
			got, err := x.Find(nil, hash)
			require.NoError(t, err)
			require.Equal(t, positions, got)
			total += len(got)
		}
		assert.EqualValues(t, total, x.Head().Records)
	}
}

func TestHeadsAreReadAsTheyWereWritten(t *testing.T) {
	h := Head{KindIndex, [16]byte{1}, [16]byte{2}, 3, 4, 5, 6, 7, 8, 9}
	got, err := ParseHead(h.Encode())
	require.NoError(t, err)
	assert.Equal(t, h, got)
	require.NoError(t, got.Differs(&h))
	other := h
	other.Store[0]++
	require.ErrorContains(t, got.Differs(&other), "belongs to store")
	other = h
	other.First--
	require.ErrorContains(t, got.Differs(&other), "positions 3 to 3 and should be")
	other = h
	other.File[0]++
	require.ErrorContains(t, got.Differs(&other), "another copy")
	_, err = ParseHead(binary.BigEndian.AppendUint64(nil, 1))
	require.Error(t, err)
}

func TestABankAnswersLikeTheFiltersInIt(t *testing.T) {
	for width := 1; width <= BankWidth; width++ {
		var planes []Plane
		var sets [][]Entry
		for i := range width {
			entries := entriesOf(uint64(i+1), 1000+i, whole)
			sets = append(sets, entries)
			planes = append(planes, index(t, entries).TakeFilter())
		}
		for _, p := range planes {
			require.True(t, planes[0].Fits(p))
		}
		bank, err := NewBank(planes, func() error { return nil })
		require.NoError(t, err)
		for i, set := range sets {
			for _, e := range set {
				require.NotZero(t, bank.Probe(e.Hash)&(1<<i))
			}
		}
		random := rand.New(rand.NewPCG(7, uint64(width)))
		for range 2000 {
			hash, want := random.Uint64(), uint8(0)
			for i, p := range planes {
				if p.Bank.Probe(hash) != 0 {
					want |= 1 << i
				}
			}
			require.Equal(t, want, bank.Probe(hash))
		}
		// And out of the bank again, in another order.
		again, err := NewBank([]Plane{{bank, width - 1}, {bank, 0}}, func() error { return nil })
		require.NoError(t, err)
		for _, e := range sets[0] {
			require.NotZero(t, again.Probe(e.Hash)&2)
		}
	}
}

func TestABankFindsTheCellsOfTheLibrary(t *testing.T) {
	x := index(t, entriesOf(11, 3000, whole))
	var stored *xorfilter.BinaryFuse[uint8]
	require.NoError(t, x.db.View(func(tx *bolt.Tx) error {
		value, err := sum.Cut(shardKey(0), tx.Bucket(filterBucket).Get(shardKey(0)))
		require.NoError(t, err)
		stored, err = xorfilter.LoadBinaryFuse[uint8](bytes.NewReader(value[1:]))
		return err
	}))
	random := rand.New(rand.NewPCG(5, 5))
	for range 50_000 {
		hash := random.Uint64()
		require.Equal(t, stored.Contains(hash), x.MayHave(hash))
	}
}

func TestIndexesOfAboutOneSizeHaveFiltersOfOneShape(t *testing.T) {
	for _, sizes := range [][]int{{499_840, 500_000, 500_224}, {100, 90, 120}, {1, 2, 60}, {10_000, 10_100, 12_000}} {
		var planes []Plane
		for i, n := range sizes {
			planes = append(planes, index(t, entriesOf(uint64(i+1), n, whole)).TakeFilter())
		}
		for i := range planes {
			assert.True(t, planes[0].Fits(planes[i]), sizes)
		}
	}
	a, b := index(t, entriesOf(1, 100, whole)).TakeFilter(), index(t, entriesOf(2, 100_000, whole)).TakeFilter()
	assert.False(t, a.Fits(b))
}

func TestIndexesOfUnequalSizeAreMergedInSmallSteps(t *testing.T) {
	from := []*Index{index(t, entriesOf(1, 20_000, whole)), index(t, entriesOf(2, 3, whole))}
	path := filepath.Join(t.TempDir(), "m.idx")
	w, err := CreateIndex(path, Head{First: 1, End: 1 << 40, Records: 20_003})
	require.NoError(t, err)
	steps := 0
	require.NoError(t, Merge(w, from, func(uint64) bool { return true }, func() error { steps++; return nil }))
	_, _, err = w.Finish()
	require.NoError(t, err)
	assert.Greater(t, steps, 30)
	x := openedIndex(t, path)
	for _, e := range append(entriesOf(1, 20_000, whole), entriesOf(2, 3, whole)...) {
		got, err := x.Find(nil, e.Hash)
		require.NoError(t, err)
		require.Equal(t, []uint64{e.Position}, got)
	}
}
