//go:build linux && (amd64 || arm64)

package disk

import (
	"os"
	"syscall"
)

// adviseDontNeed is POSIX_FADV_DONTNEED, the same number on both architectures of this file.
const adviseDontNeed = 4

// DropCache asks the kernel to forget its copy of the file, so that the next reads come from the disk.
// After a failed sync the copy can differ from the disk without being marked so.
func DropCache(f *os.File) error {
	_, _, errno := syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, adviseDontNeed, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
