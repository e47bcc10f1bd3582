package disk

import (
	"errors"
	"os"
	"syscall"
)

// ReservedAtOpen is how far the blocks of a file are known to be there: bbolt may have left holes.
func ReservedAtOpen(int64) int64 { return 0 }

// Allocate gives the file blocks between two offsets, and at least the size to.
func Allocate(file *os.File, from, to int64) error {
	for {
		err := syscall.Fallocate(int(file.Fd()), 0, from, to-from)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS):
			return fill(file, to)
		}
		return err
	}
}
