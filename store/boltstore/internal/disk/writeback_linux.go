//go:build linux && !arm

package disk

import (
	"errors"
	"os"
	"syscall"
)

// The flags of sync_file_range.
const (
	waitBefore   = 1
	startWriting = 2
)

// WriteBack lets the disk begin with what was written to the file, and waits for what it has begun with earlier, but for
// the last lag bytes. It makes nothing durable: only Sync does, which then has little to wait for. A Sync in its place
// would write the journal of the file system each time, and others wait for that.
//
// An error means that something is not on the disk. It must not be ignored: the kernel tells an open file of it once,
// and a Sync after it says nothing.
func WriteBack(f *os.File, size, lag int64) error {
	if size > lag {
		if err := told(syscall.SyncFileRange(int(f.Fd()), 0, size-lag, waitBefore)); err != nil {
			return err
		}
	}
	return told(syscall.SyncFileRange(int(f.Fd()), 0, 0, startWriting))
}

// told keeps errors of writing. The others say that the file system has no such call, or that the wait was cut short.
func told(err error) error {
	for _, harmless := range []error{syscall.ENOSYS, syscall.EINVAL, syscall.ESPIPE, syscall.EINTR} {
		if errors.Is(err, harmless) {
			return nil
		}
	}
	if err != nil {
		return os.NewSyscallError("sync_file_range", err)
	}
	return nil
}
