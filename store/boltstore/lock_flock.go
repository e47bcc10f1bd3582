//go:build unix && !solaris && !aix && !android

package boltstore

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// lockRetry is the time between two looks at a lock that another process has.
const lockRetry = 10 * time.Millisecond

// lockFile locks the file for this process, as bbolt will do again with the same open file, which is no
// change. locked is false if another process has it until the deadline.
func lockFile(file *os.File, deadline time.Time) (locked bool, err error) {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return false, err
		case time.Now().After(deadline):
			return false, nil
		}
		time.Sleep(lockRetry)
	}
}

// unlockFile gives the lock up. Closing the file does not, as long as it is mapped.
func unlockFile(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }
