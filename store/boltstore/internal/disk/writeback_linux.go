//go:build linux && !arm

package disk

import (
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
// would write the journal of the file system each time, and others wait for that. Errors are left to Sync.
func WriteBack(f *os.File, size, lag int64) error {
	if size > lag {
		_ = syscall.SyncFileRange(int(f.Fd()), 0, size-lag, waitBefore)
	}
	_ = syscall.SyncFileRange(int(f.Fd()), 0, 0, startWriting)
	return nil
}
