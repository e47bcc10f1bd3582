package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dataSync makes the bytes of f durable.
func dataSync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// freeBytes is the room that is left for files in dir.
func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// processTime is the processor time that this process has used.
func processTime() (time.Duration, error) {
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		return 0, err
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano()), nil
}

// anonymousBytes is the memory of this process that no file stands behind.
func anonymousBytes() (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			var kilobytes uint64
			if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
				return 0, fmt.Errorf("RssAnon: %w", err)
			}
			return kilobytes << 10, nil
		}
	}
	return 0, errors.New("/proc/self/status has no line RssAnon")
}

// allocated is how many bytes of the disk the files below dir take.
func allocated(dir string) (sum int64, err error) {
	err = eachFile(dir, func(f *os.File) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		sum += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
	return sum, err
}

// calmDisk waits until everything that was written to the file system of dir is on its disk, so that one
// measurement does not pay for another.
func calmDisk(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return unix.Syncfs(int(f.Fd()))
}

// dropCache asks the kernel to forget the contents of the files below dir. Nobody may have them mapped.
func dropCache(dir string) error {
	if err := calmDisk(dir); err != nil {
		return err
	}
	return eachFile(dir, func(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) })
}

// fillCache reads all files below dir once.
func fillCache(dir string) error {
	return eachFile(dir, func(f *os.File) error {
		_, err := io.Copy(io.Discard, f)
		return err
	})
}

// eachFile opens each file below dir. A file that is removed meanwhile is passed over.
func eachFile(dir string, do func(f *os.File) error) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		return do(f)
	})
}
