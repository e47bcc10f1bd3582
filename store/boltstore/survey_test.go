package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
)

// image is a store's main file in memory, to be damaged.
type image struct {
	dir                  string
	b                    []byte
	page                 int
	root, store, segment uint64 // pages: of all buckets, of ours, of the active segment
}

func newImage(t *testing.T) *image {
	t.Helper()
	x := &image{dir: t.TempDir()}
	s := opened(t, x.dir, &Options{MmapBytes: 1 << 20})
	batch := make([]*onefold.Commit, 0, 300)
	for i := range cap(batch) {
		batch = append(batch, &onefold.Commit{Entry: entryOf(fmt.Sprint("key", i), messageOf(fmt.Sprint(i)))})
	}
	require.NoError(t, s.Commit(context.Background(), batch))
	x.page = int(s.mapping.pageSize)
	require.NoError(t, s.Close(context.Background()))
	cutReserve(t, mainPath(x.dir))
	db, err := bolt.Open(mainPath(x.dir), 0o600, &bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, db.View(func(tx *bolt.Tx) error {
		x.root = uint64(tx.Cursor().Bucket().Root())
		x.store = uint64(tx.Bucket(rootName).Root())
		journal := tx.Bucket(rootName).Bucket(segName)
		first, _ := journal.Cursor().First()
		x.segment = uint64(journal.Bucket(first).Root())
		return nil
	}))
	require.NoError(t, db.Close())
	x.b, err = os.ReadFile(mainPath(x.dir))
	require.NoError(t, err)
	return x
}

// at returns the bytes of a page.
func (x *image) at(page uint64) []byte { return x.b[int(page)*x.page : int(page+1)*x.page] }

// open opens a copy of the image.
func (x *image) open(t *testing.T) error {
	t.Helper()
	dir := t.TempDir()
	mark, err := os.ReadFile(filepath.Join(x.dir, storeFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, storeFile), mark, 0o600))
	require.NoError(t, os.WriteFile(mainPath(dir), x.b, 0o600))
	s, err := Open(dir, &Options{MmapBytes: 1 << 20})
	if err != nil {
		return err
	}
	_, err = s.Stats(context.Background())
	return errors.Join(err, s.Close(context.Background()))
}

// wrong is a way in which a page can be wrong.
type wrong struct {
	name, says string
	damage     func(t *testing.T, x *image)
}

// child is where the page of a branch's element stands.
func child(x *image, page uint64, element int) []byte {
	return x.at(page)[pageHeadLen+element*branchElementLen+8:]
}

func wrongPointers() []wrong {
	return []wrong{
		{"a bucket within itself", "used twice", func(t *testing.T, x *image) {
			page := x.at(x.root)
			i := bytes.Index(page, rootName)
			require.Positive(t, i)
			native.PutUint64(page[i+len(rootName):], x.root)
		}},
		{"a bucket that is its parent", "used twice", func(t *testing.T, x *image) {
			page := x.at(x.store)
			i := bytes.Index(page, rowsName)
			require.Positive(t, i)
			native.PutUint64(page[i+len(rowsName):], x.store)
		}},
		{"a branch that points to itself", "used twice", func(t *testing.T, x *image) {
			require.Equal(t, uint16(branchPage), native.Uint16(x.at(x.segment)[8:]))
			native.PutUint64(child(x, x.segment, 0), x.segment)
		}},
		{"two branches with one leaf", "used twice", func(_ *testing.T, x *image) {
			native.PutUint64(child(x, x.segment, 1), native.Uint64(child(x, x.segment, 0)))
		}},
		{"a page beyond the end", "the file has", func(_ *testing.T, x *image) {
			native.PutUint64(child(x, x.segment, 0), 1<<40)
		}},
		{"a first page of the file", "the file has", func(_ *testing.T, x *image) {
			native.PutUint64(child(x, x.segment, 0), 1)
		}},
		{"a page with the number of another", "says that it is page", func(_ *testing.T, x *image) {
			native.PutUint64(x.at(x.segment), x.segment+1)
		}},
		{"continuations that reach into other pages", "used twice", func(_ *testing.T, x *image) {
			native.PutUint32(x.at(2)[12:], 0)
			leaf := native.Uint64(child(x, x.segment, 0))
			native.PutUint32(x.at(leaf)[12:], uint32(uint64(len(x.b)/x.page)-leaf-1))
		}},
		{"continuations beyond the end", "further", func(_ *testing.T, x *image) {
			native.PutUint32(x.at(x.segment)[12:], 1<<31)
		}},
	}
}

func wrongContents() []wrong {
	return []wrong{
		{"a type that there is not", "type is 0x40", func(_ *testing.T, x *image) {
			native.PutUint16(x.at(x.segment)[8:], 0x40)
		}},
		{"a branch without elements", "0 elements", func(_ *testing.T, x *image) {
			native.PutUint16(x.at(x.segment)[10:], 0)
		}},
		{"more elements than fit", "elements", func(_ *testing.T, x *image) {
			native.PutUint16(x.at(x.segment)[10:], 60000)
		}},
		{"a key outside its page", "not within the page", func(_ *testing.T, x *image) {
			native.PutUint32(x.at(x.segment)[pageHeadLen:], 1<<31)
		}},
		{"keys out of order", "out of order", func(_ *testing.T, x *image) {
			leaf := x.at(native.Uint64(child(x, x.segment, 0)))
			leaf[pageHeadLen+native.Uint32(leaf[pageHeadLen+4:])] = 0xff
		}},
		{"a value that claims to be a bucket", "used twice|the file has|bucket", func(_ *testing.T, x *image) {
			leaf := x.at(native.Uint64(child(x, x.segment, 0)))
			native.PutUint32(leaf[pageHeadLen:], bucketFlag)
		}},
		{"a list of free pages that is none", "list of free pages", func(_ *testing.T, x *image) {
			setFreelist(x, x.segment)
		}},
	}
}

func TestPagesThatPointWrongAreDamageAndNeverFollowed(t *testing.T) {
	for _, c := range slices.Concat(wrongPointers(), wrongContents()) {

		t.Run(c.name, func(t *testing.T) {
			x := newImage(t)
			c.damage(t, x)
			err := x.open(t)
			require.ErrorIs(t, err, onefold.ErrDamaged)
			assert.Regexp(t, c.says, err.Error())
			assert.ErrorContains(t, err, "backup")
		})
	}
}

// setFreelist points both meta pages to a list of free pages.
func setFreelist(x *image, page uint64) {
	for i := range uint64(2) {
		meta := x.at(i)[pageHeadLen:]
		native.PutUint64(meta[32:], page)
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:metaLen-8])
		native.PutUint64(meta[metaLen-8:], sum.Sum64())
	}
}

func TestFileOfBboltWithAListOfFreePagesIsSurveyed(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir, &Options{MmapBytes: 32 << 10})
	for i := range 50 {
		require.NoError(t, stored(t, s, entryOf(fmt.Sprint(i))))
	}
	require.NoError(t, s.Close(context.Background()))
	db, err := bolt.Open(mainPath(dir), 0o600, nil) // with default settings, as someone who looks into it
	require.NoError(t, err)
	require.NoError(t, db.Close())
	s = opened(t, dir, nil)
	_, err = s.Lookup(context.Background(), ofID("7"))
	assert.NoError(t, err)
}

func TestFileOfWhichOneMetaPageIsNotWholeIsDamaged(t *testing.T) {
	for i := range 2 {
		dir := t.TempDir()
		s := opened(t, dir, nil)
		require.NoError(t, stored(t, s, entryOf("a")))
		require.NoError(t, s.Crash())
		b, err := os.ReadFile(mainPath(dir))
		require.NoError(t, err)
		b[i*os.Getpagesize()+pageHeadLen+50] ^= 1
		require.NoError(t, os.WriteFile(mainPath(dir), b, 0o600))
		// Which of the two is the newer one cannot be told any more: with it the last commit might be gone.
		_, err = Open(dir, nil)
		require.ErrorIs(t, err, onefold.ErrDamaged)
	}
}
