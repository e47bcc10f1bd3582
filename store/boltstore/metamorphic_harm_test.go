package boltstore_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold/store/boltstore"
)

// harm is one way in which the files of a store are not what they were.
type harm struct {
	name string
	base string // the directory that is harmed, in a copy
	gap  string // not empty: why this version of the format cannot tell
	do   func(dir string) error

	always bool // not left out in the short form
}

// checkedFormat is the first format version whose values carry checksums.
const checkedFormat = 2

// unchecked is the gap of formats before.
func unchecked() string {
	if boltstore.FormatVersion < checkedFormat {
		return "values carry no checksum, and STORE no epoch"
	}
	return ""
}

// harms is everything that is done to the directories of m. Every file in them is a candidate.
func harms(t *testing.T, m *material, r *rand.Rand) (all []harm) {
	t.Helper()
	for _, base := range []string{m.clean, m.crashed} {
		all = append(all, harm{"nothing at all in " + filepath.Base(base), base, "", func(string) error { return nil }, true})
		for _, name := range filesOf(t, base) {
			for _, h := range slicesOfHarms(t, m, base, name, r) {
				h.name, h.base = fmt.Sprintf("%s: %s %s", filepath.Base(base), name, h.name), base
				all = append(all, h)
			}
		}
	}
	return all
}

func slicesOfHarms(t *testing.T, m *material, base, name string, r *rand.Rand) []harm {
	all := truncated(t, base, name, r)
	all = append(all, flipped(t, base, name, r)...)
	all = append(all, harm{"missing", "", "", func(dir string) error { return os.Remove(filepath.Join(dir, name)) }, top(name)})
	all = append(all, replaced(m.foreign, name, "of another store", ""))
	if name == "main.db" {
		all = append(all, replaced(m.older, name, "restored from an older copy", unchecked()))
		all = append(all, stalePages(t, m.older, base, name)...)
	} else {
		all = append(all, replaced(m.older, name, "restored from an older copy", ""))
	}
	for _, other := range filesOf(t, base) {
		if other > name {
			all = append(all, exchanged(name, other))
		}
	}
	return all
}

// filesOf lists the files of a directory by their paths within it.
func filesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		names = append(names, name)
		return err
	}))
	return names
}

// truncated cuts a file at some lengths.
func truncated(t *testing.T, base, name string, r *rand.Rand) (all []harm) {
	info, err := os.Stat(filepath.Join(base, name))
	require.NoError(t, err)
	size := info.Size()
	lengths := []int64{0, size - 1, size / 2}
	for range 4 {
		lengths = append(lengths, r.Int64N(size), r.Int64N(size)&^4095)
	}
	for _, n := range lengths {
		all = append(all, harm{fmt.Sprintf("cut to %d of %d bytes", n, size), "", "", func(dir string) error {
			return os.Truncate(filepath.Join(dir, name), n)
		}, false})
	}
	return all
}

// area is a part of a file in which bits are flipped.
type area struct {
	kind     string
	from, to int64
}

// areas finds the pages of a bbolt file, those that are free left out; a file of another kind is one area.
func areas(t *testing.T, base, name string) (all []area) {
	from := filepath.Join(base, name)
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "db") // bbolt locks what it reads
	require.NoError(t, os.WriteFile(path, b, 0o600))
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		return []area{{"byte", 0, int64(len(b))}}
	}
	page := int64(db.Info().PageSize)
	require.NoError(t, db.View(func(tx *bolt.Tx) error {
		for id := 0; ; {
			p, err := tx.Page(id)
			if err != nil || p == nil {
				return err
			}
			if p.Type != "free" {
				all = append(all, area{p.Type, int64(id) * page, int64(id+1+p.OverflowCount) * page})
			}
			id += 1 + p.OverflowCount
		}
	}))
	require.NoError(t, db.Close())
	return all
}

// flipped flips one bit, or the bits of a few bytes, in parts of each kind.
func flipped(t *testing.T, base, name string, r *rand.Rand) (all []harm) {
	byKind := map[string][]area{}
	var kinds []string
	for _, a := range areas(t, base, name) {
		if byKind[a.kind] == nil {
			kinds = append(kinds, a.kind)
		}
		byKind[a.kind] = append(byKind[a.kind], a)
	}
	for _, kind := range kinds {
		for range 16 {
			a := byKind[kind][r.IntN(len(byKind[kind]))]
			at := a.from + r.Int64N([]int64{16, 100, 1000, a.to - a.from}[r.IntN(4)])
			at = min(at, a.to-1)
			mask, n := byte(1)<<r.IntN(8), int64(1)
			if r.IntN(4) == 0 {
				mask, n = byte(1+r.IntN(255)), 1+r.Int64N(8)
			}
			gap := ""
			if name == "main.db" && kind != "meta" {
				gap = unchecked()
			}
			all = append(all, harm{fmt.Sprintf("%s at %d: %d bytes from %d flipped with %#02x", kind, a.from, n, at, mask), "", gap, func(dir string) error {
				return flip(filepath.Join(dir, name), at, min(n, a.to-at), mask)
			}, false})
		}
	}
	return all
}

func flip(path string, at, n int64, mask byte) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for i := at; i < at+n; i++ {
		b[i] ^= mask
	}
	return os.WriteFile(path, b, 0o600)
}

// replaced puts the file of another directory in place of one, or removes it if that has none.
func replaced(from, name, what, gap string) harm {
	return harm{what, "", gap, func(dir string) error {
		b, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			return os.Remove(filepath.Join(dir, name))
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), b, 0o600)
	}, top(name)}
}

// top reports whether a file stands in the directory itself.
func top(name string) bool { return filepath.Dir(name) == "." }

// exchanged gives each of two files the name of the other.
func exchanged(one, other string) harm {
	return harm{"exchanged with " + other, "", "", func(dir string) error {
		for _, move := range [][2]string{{one, "aside"}, {other, one}, {"aside", other}} {
			if err := os.Rename(filepath.Join(dir, move[0]), filepath.Join(dir, move[1])); err != nil {
				return err
			}
		}
		return nil
	}, false}
}

// stalePages puts single pages of an older copy in place of newer ones, as a disk does that loses a write.
func stalePages(t *testing.T, older, base, name string) (all []harm) {
	before, err := os.ReadFile(filepath.Join(older, name))
	require.NoError(t, err)
	now, err := os.ReadFile(filepath.Join(base, name))
	require.NoError(t, err)
	for _, a := range areas(t, base, name) {
		if a.kind == "meta" || a.to > int64(len(before)) || string(before[a.from:a.to]) == string(now[a.from:a.to]) {
			continue
		}
		all = append(all, harm{fmt.Sprintf("%s at %d as it was before", a.kind, a.from), "", unchecked(), func(dir string) error {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			copy(b[a.from:a.to], before[a.from:a.to])
			return os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}, false})
	}
	return all
}
