package sealed

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func TestAFileOfTheOtherKindIsRefused(t *testing.T) {
	x, r := index(t, entriesOf(1, 10, whole)), segment(t, 1, 100, recordOf)
	_, err := OpenRecords(x.Path(), admitAll)
	require.ErrorIs(t, err, onefold.ErrDamaged)
	_, err = OpenIndex(r.Path(), admitAll)
	require.ErrorIs(t, err, onefold.ErrDamaged)
	_, err = OpenIndex(r.Path()+"x", admitAll)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestADamagedFileIsNeverAMiss turns over bits all over the files.
func TestADamagedFileIsNeverAMiss(t *testing.T) {
	entries := entriesOf(2, 2000, whole)
	x, r := index(t, entries), segment(t, 1, 3000, recordOf)
	random := rand.New(rand.NewPCG(4, 4))
	for _, path := range []string{x.Path(), r.Path()} {
		clean, err := os.ReadFile(path)
		require.NoError(t, err)
		for range 400 {
			b := slices.Clone(clean)
			bit := random.IntN(len(b) * 8)
			b[bit/8] ^= 1 << (bit % 8)
			damaged := filepath.Join(t.TempDir(), "damaged")
			require.NoError(t, os.WriteFile(damaged, b, 0o600))
			if path == x.Path() {
				findAll(t, damaged, entries, bit)
			} else {
				getAll(t, damaged, bit)
			}
		}
	}
}

func findAll(t *testing.T, path string, entries []Entry, bit int) {
	t.Helper()
	x, err := OpenIndex(path, admitAll)
	if err != nil {
		require.ErrorIs(t, err, onefold.ErrDamaged)
		return
	}
	defer func() { _ = x.Close() }()
	for _, e := range entries {
		require.True(t, x.MayHave(e.Hash), "bit %d", bit)
		got, err := x.Find(nil, e.Hash)
		if err != nil {
			require.ErrorIs(t, err, onefold.ErrDamaged)
			continue
		}
		require.Equal(t, []uint64{e.Position}, got, "bit %d", bit)
	}
}

func getAll(t *testing.T, path string, bit int) {
	t.Helper()
	r, err := OpenRecords(path, admitAll)
	if err != nil {
		require.ErrorIs(t, err, onefold.ErrDamaged)
		return
	}
	defer func() { _ = r.Close() }()
	for p := uint64(2); p < 3000; p += 3 {
		got, err := r.Get(p)
		if err != nil {
			require.ErrorIs(t, err, onefold.ErrDamaged)
			continue
		}
		require.Equal(t, recordOf(p), got, "bit %d", bit)
	}
}

func TestWhatAVisitorSaysIsNoDamageOfTheFile(t *testing.T) {
	r := segment(t, 1, 100, recordOf)
	full := errors.New("no space")
	_, err := r.From(1, func(uint64, []byte) error { return full })
	require.Same(t, full, err)
}

// TestAFileWhosePagesAreLostIsGivenUp loses, between two writes, the page on which bbolt has its list of free
// pages: it panics, and panics again while it takes the write back.
func TestAFileWhosePagesAreLostIsGivenUp(t *testing.T) {
	w, err := CreateRecords(filepath.Join(t.TempDir(), "a.seg"), Head{First: 1, End: 1 << 40})
	require.NoError(t, err)
	record := make([]byte, 1000)
	p := uint64(0)
	fill := func() (err error) {
		for range 2 * batchBytes / len(record) {
			p++
			if err = w.Add(p, record); err != nil {
				break
			}
		}
		return err
	}
	require.NoError(t, fill())
	info, err := w.w.file.Stat()
	require.NoError(t, err)
	_, err = w.w.file.WriteAt(make([]byte, info.Size()-2*pageSize), 2*pageSize)
	require.NoError(t, err)
	require.ErrorIs(t, fill(), onefold.ErrDamaged)
	w.Abort() // comes back
}
