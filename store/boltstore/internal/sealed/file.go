package sealed

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/guard"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// file is an open file. It is for concurrent use until it is closed.
type file struct {
	path string
	size int64
	head Head
	db   *bolt.DB

	// bbolt transactions are not for concurrent use, and beginning one costs more than a look-up. Since the
	// file never changes, they are kept.
	mu   sync.Mutex
	idle []*reader
}

// reader is one read transaction.
type reader struct {
	tx     *bolt.Tx
	blocks *bolt.Bucket
}

// lockWait is how long an open waits for a lock that nobody should hold.
const lockWait = time.Second

// openFile opens the file at path. Its structure is judged by admit before bbolt sees it; the errors of admit are
// returned as they are.
func openFile(path string, admit func(*os.File) error) (*file, error) {
	f := &file{path: path}
	var refused error
	o := &bolt.Options{
		ReadOnly: true, Timeout: lockWait, NoStatistics: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			opened, err := os.OpenFile(name, flag, mode)
			if err != nil {
				return nil, err
			}
			info, err := opened.Stat()
			if err == nil {
				f.size = info.Size()
				err = admit(opened)
			}
			if err != nil {
				refused = err
				_ = opened.Close()
				return nil, err
			}
			return opened, nil
		},
	}
	err := guard.Run("open "+path, func() (err error) {
		if f.db, err = bolt.Open(path, 0o400, o); err != nil {
			return err
		}
		return f.db.View(f.readHead)
	})
	if err == nil {
		return f, nil
	}
	if f.db != nil {
		_ = guard.Run("close "+path, f.db.Close)
	}
	if refused != nil {
		return nil, refused
	}
	return nil, f.opening(err)
}

// opening tells damage from what the system refuses.
func (f *file) opening(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) || errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("open %s: %w", f.path, err)
	}
	return f.damaged(err)
}

func (f *file) readHead(tx *bolt.Tx) error {
	b := tx.Bucket(headBucket)
	if b == nil {
		return errors.New("it has no head")
	}
	stored, err := sum.Cut(headKey, b.Get(headKey))
	if err == nil {
		f.head, err = ParseHead(stored)
	}
	if err != nil {
		return fmt.Errorf("head: %w", err)
	}
	return nil
}

func (f *file) damaged(err error) error {
	if errors.Is(err, onefold.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", onefold.ErrDamaged, f.path, err)
}

// read runs fn with a reader. fn copies what it keeps. Errors: ErrDamaged.
func (f *file) read(fn func(r *reader) error) error {
	r := f.take()
	err := guard.Run("read "+f.path, func() (err error) {
		if r == nil {
			if r, err = f.begin(); err != nil {
				return err
			}
		}
		return fn(r)
	})
	if err != nil {
		err = f.damaged(err)
	}
	if r != nil {
		f.mu.Lock()
		f.idle = append(f.idle, r)
		f.mu.Unlock()
	}
	return err
}

func (f *file) take() *reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.idle)
	if n == 0 {
		return nil
	}
	r := f.idle[n-1]
	f.idle = f.idle[:n-1]
	return r
}

func (f *file) begin() (*reader, error) {
	tx, err := f.db.Begin(false)
	if err != nil {
		return nil, err
	}
	r := &reader{tx: tx, blocks: tx.Bucket(blockBucket)}
	if r.blocks == nil {
		return nil, errors.Join(fmt.Errorf("bucket %q is missing", blockBucket), tx.Rollback())
	}
	return r, nil
}

// Close closes the file. Nobody may read it any more.
func (f *file) Close() error {
	f.mu.Lock()
	idle := f.idle
	f.idle = nil
	f.mu.Unlock()
	for _, r := range idle {
		_ = guard.Run("end reading "+f.path, r.tx.Rollback)
	}
	return guard.Run("close "+f.path, f.db.Close)
}

// Path is where the file is.
func (f *file) Path() string { return f.path }

// Size is its length in bytes.
func (f *file) Size() int64 { return f.size }

// Head says what it is.
func (f *file) Head() *Head { return &f.head }
