package boltstore_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// made returns the directory of a closed store with some records.
func made(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, &boltstore.Options{MmapBytes: 32 << 10})
	for i := range 200 {
		commit(t, s, key(fmt.Sprint(i)))
	}
	require.NoError(t, s.Close(context.Background()))
	return dir
}

func key(id string) onefold.Key { return onefold.Key{Scope: "ORDERS/billing", ID: id} }

func entry(k onefold.Key, effects ...onefold.Effect) onefold.Entry {
	return onefold.Entry{Key: k, Outcome: onefold.Succeeded, Retain: time.Hour, Effects: effects}
}

// commit stores an entry without a claim.
func commit(t testing.TB, s *boltstore.Store, k onefold.Key, effects ...onefold.Effect) {
	t.Helper()
	c := &onefold.Commit{Entry: entry(k, effects...)}
	require.NoError(t, s.Commit(context.Background(), []*onefold.Commit{c}))
	require.NoError(t, c.Err)
}

func main(dir string) string { return filepath.Join(dir, "main.db") }

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// foreign makes a bbolt file that belongs to someone else.
func foreign(t *testing.T, path string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("theirs"))
		return err
	}))
	require.NoError(t, db.Close())
}

// overwrite puts b into a file at an offset.
func overwrite(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// setFormat changes the format version in the main file.
func setFormat(t *testing.T, dir string, v uint32) {
	t.Helper()
	db, err := bolt.Open(main(dir), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("onefold")).Bucket([]byte("meta")).Put([]byte("format"), binary.BigEndian.AppendUint32(nil, v))
	}))
	require.NoError(t, db.Close())
}

// allValues returns all keys and values of a closed store.
func allValues(t *testing.T, dir string) (all [][]byte) {
	t.Helper()
	db, err := bolt.Open(main(dir), 0o600, &bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	var walk func(b *bolt.Bucket) error
	walk = func(b *bolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			if v == nil {
				return walk(b.Bucket(k))
			}
			all = append(all, bytes.Clone(k), bytes.Clone(v))
			return nil
		})
	}
	require.NoError(t, db.View(func(tx *bolt.Tx) error { return walk(tx.Bucket([]byte("onefold"))) }))
	require.NoError(t, db.Close())
	return all
}

// setRecordFlag sets a flag in one record.
func setRecordFlag(t *testing.T, dir string, flag byte) {
	t.Helper()
	db, err := bolt.Open(main(dir), 0o600, &bolt.Options{NoFreelistSync: true})
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		seg := tx.Bucket([]byte("onefold")).Bucket([]byte("seg"))
		active, _ := seg.Cursor().First()
		records := seg.Bucket(active)
		at, v := records.Cursor().First()
		v = bytes.Clone(v[:len(v)-4])
		v[1] |= flag
		return records.Put(bytes.Clone(at), boltstore.Summed(at, v))
	}))
	require.NoError(t, db.Close())
}

// refused is a directory that Open must refuse.
type refused struct {
	name string
	dir  func(t *testing.T) string
	want error
	says string
}

// strangers are directories that hold something else.
func strangers() []refused {
	return []refused{
		{"a file", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "f")
			write(t, path, "text")
			return path
		}, onefold.ErrNotStore, "name a directory"},
		{"a directory with other files", func(t *testing.T) string {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "photo.jpg"), "text")
			return dir
		}, onefold.ErrNotStore, "photo.jpg"},
		{"a bbolt file of someone else", func(t *testing.T) string {
			dir := t.TempDir()
			foreign(t, main(dir))
			return dir
		}, onefold.ErrNotStore, "theirs"},
		{"a main file that is something else", func(t *testing.T) string {
			dir := t.TempDir()
			write(t, main(dir), strings.Repeat("not a database ", 1000))
			return dir
		}, onefold.ErrNotStore, "main.db"},
	}
}

// brokenFiles are stores whose main file is not what it was.
func brokenFiles() []refused {
	return []refused{
		{"a store whose main file is gone", func(t *testing.T) string {
			dir := made(t)
			require.NoError(t, os.Remove(main(dir)))
			return dir
		}, onefold.ErrDamaged, "backup"},
		{"a store whose main file is empty", func(t *testing.T) string {
			dir := made(t)
			require.NoError(t, os.Truncate(main(dir), 0))
			return dir
		}, onefold.ErrDamaged, "backup"},
		{"a store whose main file has lost its end", func(t *testing.T) string {
			dir := made(t)
			require.NoError(t, os.Truncate(main(dir), 24<<10))
			return dir
		}, onefold.ErrDamaged, "backup"},
		{"a store whose main file is shorter than a page", func(t *testing.T) string {
			dir := made(t)
			require.NoError(t, os.Truncate(main(dir), 100))
			return dir
		}, onefold.ErrDamaged, "backup"},
		{"a store whose first pages are garbage", func(t *testing.T) string {
			dir := made(t)
			overwrite(t, main(dir), 0, bytes.Repeat([]byte{0xA5}, 8<<10))
			return dir
		}, onefold.ErrDamaged, "backup"},
		{"a store with garbage behind its first pages", func(t *testing.T) string {
			dir := made(t)
			info, err := os.Stat(main(dir))
			require.NoError(t, err)
			overwrite(t, main(dir), 8<<10, bytes.Repeat([]byte{0xA5}, int(info.Size())-8<<10))
			return dir
		}, onefold.ErrDamaged, "backup"},
	}
}

// mixedUp are stores whose parts do not belong together, or not to this version.
func mixedUp() []refused {
	return []refused{
		{"the main file of another store", func(t *testing.T) string {
			dir, other := made(t), made(t)
			require.NoError(t, os.Rename(main(other), main(dir)))
			return dir
		}, onefold.ErrDamaged, "right file"},
		{"a bbolt file of someone else in place of the main file", func(t *testing.T) string {
			dir := made(t)
			require.NoError(t, os.Remove(main(dir)))
			foreign(t, main(dir))
			return dir
		}, onefold.ErrDamaged, "backup"},
		{"a mark that is not readable", func(t *testing.T) string {
			dir := made(t)
			write(t, filepath.Join(dir, "STORE"), "something else")
			return dir
		}, onefold.ErrDamaged, "STORE"},
		{"a newer main file", func(t *testing.T) string {
			dir := made(t)
			setFormat(t, dir, 7)
			return dir
		}, onefold.ErrNewerFormat, "format is 7, this version reads up to 2"},
		{"a newer mark", func(t *testing.T) string {
			dir := made(t)
			write(t, filepath.Join(dir, "STORE"), "onefold store\nformat 9\nid 00\n")
			return dir
		}, onefold.ErrNewerFormat, "format is 9, this version reads up to 2"},
	}
}

func TestOpenRefusesWhatItCannotUse(t *testing.T) {
	for _, c := range slices.Concat(strangers(), brokenFiles(), mixedUp()) {
		t.Run(c.name, func(t *testing.T) {
			dir := c.dir(t)
			s, err := boltstore.Open(dir, nil)
			require.ErrorIs(t, err, c.want)
			assert.ErrorContains(t, err, c.says)
			assert.ErrorContains(t, err, filepath.Dir(dir))
			assert.Nil(t, s)

			_, again := boltstore.Open(dir, nil)
			assert.Equal(t, err.Error(), again.Error(), "refusing changes nothing")
		})
	}
}

func TestOpenRefusesBadOptions(t *testing.T) {
	for _, o := range []boltstore.Options{
		{MaxEntry: -1}, {FailureLag: -1}, {MaxGroupEntries: -1}, {MaxGroupBytes: -1}, {MmapBytes: -1},
	} {
		_, err := boltstore.Open(t.TempDir(), &o)
		assert.ErrorIs(t, err, onefold.ErrInvalid)
	}
	_, err := boltstore.Open("", nil)
	assert.ErrorIs(t, err, onefold.ErrInvalid)
}

func TestCreationThatWasCutShortIsCompleted(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(t *testing.T, dir string)
	}{
		{"before the first byte of the main file", func(t *testing.T, dir string) { write(t, main(dir), "") }},
		{"while the first pages were written", func(t *testing.T, dir string) {
			complete := t.TempDir()
			s := open(t, complete, &boltstore.Options{MmapBytes: 32 << 10})
			require.NoError(t, s.Close(context.Background()))
			b, err := os.ReadFile(main(complete))
			require.NoError(t, err)
			write(t, main(dir), string(b[:3000]))
		}},
		{"while the disk had only the length of them", func(t *testing.T, dir string) {
			write(t, main(dir), strings.Repeat("\x00", 16<<10))
		}},
		{"while the disk had only some sectors of them", func(t *testing.T, dir string) {
			db, err := bolt.Open(main(dir), 0o600, nil)
			require.NoError(t, err)
			page := db.Info().PageSize
			require.NoError(t, db.Close())
			overwrite(t, main(dir), 0, make([]byte, 2*page))
			require.NoError(t, os.Truncate(main(dir), int64(4*page)))
		}},
		{"before there was a bucket", func(t *testing.T, dir string) {
			db, err := bolt.Open(main(dir), 0o600, nil)
			require.NoError(t, err)
			require.NoError(t, db.Close())
		}},
		{"while the mark was written", func(t *testing.T, dir string) {
			s := open(t, dir, nil)
			require.NoError(t, s.Close(context.Background()))
			require.NoError(t, os.Rename(filepath.Join(dir, "STORE"), filepath.Join(dir, "STORE.new")))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.cut(t, dir)
			s := open(t, dir, nil)
			assert.True(t, s.Info().Clean)
			commit(t, s, key("a"))
			require.NoError(t, s.Close(context.Background()))
			s = open(t, dir, nil)
			_, err := s.Lookup(context.Background(), key("a"))
			assert.NoError(t, err)
		})
	}
}

func TestBucketsOfTheUserMayStandBesideTheStore(t *testing.T) {
	dir := made(t)
	foreign(t, main(dir))
	s := open(t, dir, nil)
	_, err := s.Lookup(context.Background(), key("7"))
	assert.NoError(t, err)
}

func TestOpenWaitsForTheFormerProcessToClose(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, nil)
	opened := make(chan error, 1)
	go func() {
		second, err := boltstore.Open(dir, &boltstore.Options{LockWait: time.Minute})
		if err == nil {
			err = second.Close(context.Background())
		}
		opened <- err
	}()
	commit(t, first, key("a"))
	require.NoError(t, first.Close(context.Background()))
	require.NoError(t, <-opened)
}

// childDir is set in the environment of a child process that shall open a store.
const childDir = "ONEFOLD_TEST_CHILD_DIR"
