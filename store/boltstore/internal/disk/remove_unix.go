//go:build unix && !solaris && !aix && !android

package disk

import (
	"os"
	"syscall"
)

// removeStep is how much of a file is given back at once. The file system lets nobody else write meanwhile.
const removeStep = 2 << 20

// Remove removes the name of a file, and then the file in steps from its end; between is called between two of them,
// and its error leaves the rest to the system. A file that somebody has locked, as bbolt does with files that it reads, goes
// when that one closes it; one that has another name as well, a hard link of somebody's copy, keeps all.
func Remove(path string, between func() error) error {
	f, openErr := os.OpenFile(path, os.O_WRONLY, 0)
	if err := os.Remove(path); err != nil || openErr != nil {
		if openErr == nil {
			_ = f.Close()
		}
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if system, ok := info.Sys().(*syscall.Stat_t); !ok || system.Nlink > 0 {
		return nil
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil // it is read still: by an earlier store of this process, a look-up that Close did not wait for, another process
	}
	for size := info.Size(); size > 0 && err == nil; {
		size = max(0, size-removeStep)
		if err = f.Truncate(size); err == nil {
			err = between()
		}
	}
	return nil
}
