package sealed

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
	"github.com/onefold-go/onefold/store/boltstore/internal/guard"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// Aside is the ending of the name of a file that is not complete yet.
const Aside = ".new"

const (
	// pageSize lets several blocks stand in a page, which bbolt fills with whole values, and keeps the tree
	// above them small.
	pageSize = 16 << 10
	// backlogBytes is how much is written before the disk is told to begin, and how much it may still have to write
	// then: with a large backlog the commits of the store would wait.
	backlogBytes = 512 << 10
	// batchBytes is how much is put into one transaction, and so kept in memory and written at once.
	batchBytes = 256 << 10
	// blocksPerPage is how many blocks of records fill a page: a batch ends with a full one.
	blocksPerPage = 4
	// spareBytes is reserved beyond what a batch holds: for pages above the blocks, and a page written anew.
	spareBytes = 32 * pageSize
)

// The buckets of a file, and the one key of head.
var (
	headBucket   = []byte("head")
	blockBucket  = []byte("blocks")
	filterBucket = []byte("filter")
	headKey      = []byte("head")
)

// writer writes a file in batches of values in ascending order of their keys.
type writer struct {
	path     string
	file     *os.File
	db       *bolt.DB
	bucket   []byte // of the batch
	batch    []pair
	size     int // bytes of the batch
	large    int // values of the batch that may not share a page with others
	unsynced int // bytes that the disk has not been told to write
	reserved int64
}

type pair struct{ key, value []byte }

// create begins a file aside. What stands there from an earlier try is replaced.
func create(path string) (*writer, error) {
	w := &writer{path: path}
	if err := os.Remove(path + Aside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	o := &bolt.Options{
		// The list of free pages is written, as it is not in the main file: without it a failed write makes bbolt look
		// for them in a goroutine of its own, where nothing can be caught.
		NoGrowSync: true, NoSync: true, FreelistType: bolt.FreelistMapType, PageSize: pageSize, NoStatistics: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (file *os.File, err error) {
			w.file, err = os.OpenFile(name, flag|os.O_EXCL, mode)
			return w.file, err
		},
	}
	err := guard.Run("create "+path, func() (err error) {
		if w.db, err = bolt.Open(path+Aside, 0o600, o); err != nil {
			return err
		}
		w.db.AllocSize = pageSize // the file grows by reservation
		return nil
	})
	if err != nil {
		w.abort()
		return nil, err
	}
	return w, nil
}

// put adds a value, which gets its checksum here. Key and value belong to the writer from now on. Keys of
// one bucket come in ascending order, one bucket after the other.
func (w *writer) put(bucket, key, value []byte) error {
	if w.size >= batchBytes && len(w.batch)%blocksPerPage == 0 || len(w.batch) > 0 && string(w.bucket) != string(bucket) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.bucket = bucket
	value = sum.Append(key, value)
	w.batch = append(w.batch, pair{key, value})
	w.size += len(key) + len(value)
	if len(value) > pageSize/4 {
		w.large++
	}
	return nil
}

// flush writes the batch.
func (w *writer) flush() error {
	end := int64(0)
	err := guard.Update("write "+w.path, w.db, func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(w.bucket)
		if err != nil {
			return err
		}
		b.FillPercent = 1
		for _, p := range w.batch {
			if err := b.Put(p.key, p.value); err != nil {
				return err
			}
		}
		end = tx.Size()
		return w.reserve(tx)
	})
	if w.unsynced += w.size; err == nil && w.unsynced >= backlogBytes {
		err, w.unsynced = disk.WriteBack(w.file, end, 2*backlogBytes), 0
	}
	runtime.Gosched()
	clear(w.batch)
	w.batch, w.size, w.large = w.batch[:0], 0, 0
	return err
}

// reserve makes sure that the disk has room before bbolt begins to write: what bbolt does when it finds the
// disk full cannot be caught.
func (w *writer) reserve(tx *bolt.Tx) error {
	need := tx.Size() + int64(w.size) + int64(w.size)/4 + int64(w.large)*pageSize + spareBytes
	if need <= w.reserved {
		return nil
	}
	if err := disk.Allocate(w.file, w.reserved, need); err != nil {
		return fmt.Errorf("grow %s to %d bytes: %w", w.path, need, err)
	}
	w.reserved = need
	return nil
}

// finish writes the head, makes the file durable and gives it its name. It returns its size in bytes.
func (w *writer) finish(h *Head) (int64, error) {
	size := int64(0)
	err := w.put(headBucket, headKey, h.Encode())
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		err = guard.Run("finish "+w.path, func() error {
			return w.db.View(func(tx *bolt.Tx) error {
				size = tx.Size()
				return nil
			})
		})
	}
	if err == nil {
		err = w.file.Truncate(size) // give back what was reserved and not needed
	}
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil {
		w.abort()
		return 0, err
	}
	if err := guard.Run("close "+w.path, w.db.Close); err != nil {
		return 0, errors.Join(err, os.Remove(w.path+Aside))
	}
	return size, os.Rename(w.path+Aside, w.path)
}

// abort gives up the file.
func (w *writer) abort() {
	if w.db != nil {
		_ = guard.Run("close "+w.path, w.db.Close)
	} else if w.file != nil {
		_ = w.file.Close()
	}
	_ = os.Remove(w.path + Aside) // what stays is removed by the next open
}
