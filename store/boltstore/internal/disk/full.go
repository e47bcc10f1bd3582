package disk

import (
	"errors"
	"os"
	"syscall"
)

// Full reports whether err says that the disk, or the user's share of it, is used up.
func Full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota) }

// zeros is what a file is grown with where the system cannot reserve blocks.
var zeros [64 << 10]byte

// fill grows the file with written zeros.
func fill(file *os.File, to int64) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	for at := info.Size(); at < to; {
		n, err := file.WriteAt(zeros[:min(int64(len(zeros)), to-at)], at)
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}
