//go:build !unix || solaris || aix || android

package boltstore

import (
	"errors"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockFile waits until no other process has the file. The kinds of locks here cannot be taken twice, so it
// is left to bbolt to keep it: a process that comes in between finds the same file and judges it alike.
func lockFile(file *os.File, deadline time.Time) (locked bool, err error) {
	db, err := bolt.Open(file.Name(), 0, &bolt.Options{
		ReadOnly: true, Timeout: max(time.Until(deadline), time.Millisecond),
		// bbolt takes the lock before it looks at the file; an empty one has nothing to look at.
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) { return os.OpenFile(name, flag, mode) },
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return false, nil
	}
	if err == nil {
		err = db.Close()
	} else {
		err = nil // what is wrong with the file is judged later
	}
	return true, err
}

// unlockFile does nothing: the lock ends with the file.
func unlockFile(*os.File) error { return nil }
