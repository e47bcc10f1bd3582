package boltstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
	"github.com/onefold-go/onefold/store/boltstore/internal/guard"
)

// openFile opens the main file through bbolt, which gets to see it only after it has been judged under
// its lock: what bbolt does with a damaged file cannot be caught, and what it does with an empty one is to
// make a new one.
func (s *Store) openFile(deadline time.Time) (*bolt.DB, error) {
	var file *os.File
	var refused error
	o := &bolt.Options{
		NoFreelistSync: true, FreelistType: bolt.FreelistMapType, InitialMmapSize: s.options.MmapBytes,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			file, refused = s.admit(name, flag, mode, deadline)
			return file, refused
		},
		// bbolt takes 0 for "wait for ever".
		Timeout: max(time.Until(deadline), time.Millisecond),
	}
	var db *bolt.DB
	err := guard.Run("open "+s.path, func() (err error) {
		db, err = bolt.Open(s.path, 0o600, o)
		return err
	})
	var p *guard.PanicError
	switch {
	case err == nil:
		s.file = file
		return db, nil
	case refused != nil:
		return nil, refused
	case errors.As(err, &p) && file != nil:
		_, _ = unlockFile(file), file.Close() // or the lock would stay; closing alone does not end it if the file is mapped
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, inUse(s.dir, s.options.LockWait)
	}
	return nil, err
}

// admit opens and locks the main file and judges it. The lock stays with the file that is returned.
func (s *Store) admit(name string, flag int, mode os.FileMode, deadline time.Time) (*os.File, error) {
	for {
		file, err := os.OpenFile(name, flag, mode)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", s.dir, err)
		}
		locked, err := lockFile(file, deadline)
		again := false
		switch {
		case err != nil:
			err = fmt.Errorf("lock %s: %w", name, err)
		case !locked:
			err = inUse(s.dir, s.options.LockWait)
		case replaced(file, name) != nil:
			again = true // while this waited for the lock; nobody will look at this file any more
		default:
			if err = s.judge(file); err == nil {
				err = s.settleCache(file)
			}
		}
		if err == nil && !again {
			return file, nil
		}
		_ = file.Close()
		if err != nil {
			return nil, err
		}
	}
}

// replaced says that the path does not lead to the open file any more, if that is so.
func replaced(file *os.File, path string) error {
	mine, err := file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !os.SameFile(mine, there) {
		return errReplaced
	}
	return nil
}

// errReplaced says that a path leads to another file than the one that is open.
var errReplaced = errors.New("another file was put in its place")

// settleCache makes durable what the cache shows of the file. A process that was killed may have left a meta
// page there that is not on the disk yet: the first write of this one may go to pages that are free only if it
// counts.
func (s *Store) settleCache(file *os.File) error {
	if err := file.Sync(); err != nil {
		return fmt.Errorf("open %s: %w", s.dir, errors.Join(err, writeCheckMark(s.dir, err)))
	}
	return nil
}

// judge decides whether the main file may be used. It reads all of it and writes nothing, except that a
// file whose creation was cut short is emptied, so that it is begun again.
func (s *Store) judge(file *os.File) error {
	path := s.path
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("open %s: %w", s.dir, err)
	}
	_, marked, err := readStoreMark(s.dir)
	if err != nil {
		return err
	}
	switch {
	case info.Size() == 0 && !marked:
		return nil // creation was cut short before the first byte, or begins now
	case info.Size() == 0:
		return damaged(path, errors.New("the file is empty"))
	}
	// After a sync that failed, the cache may show what the disk does not have: while a store is made there is
	// no mark of that.
	if !marked || hasCheckMark(s.dir) {
		if err := disk.DropCache(file); err != nil {
			return fmt.Errorf("open %s: %w", s.dir, err)
		}
	}
	found, err := surveyFile(file, info.Size())
	switch {
	case err == nil && (marked || found.found.ours || !found.torn):
		return s.admitSurveyed(found, marked)
	case err == nil:
		err = errTorn
	}
	switch {
	case marked:
		return damaged(path, err)
	case unfinished(file, info.Size()):
		return file.Truncate(0)
	}
	return fmt.Errorf("%w: %s: %w", onefold.ErrNotStore, path, err)
}

// admitSurveyed refuses a whole file that is not a store of ours, or of a newer version.
func (s *Store) admitSurveyed(found *survey, marked bool) error {
	switch {
	case found.found.ours:
	case marked:
		return damaged(s.path, fmt.Errorf("bucket %q is missing", rootName))
	case found.firstBucket != nil:
		return fmt.Errorf("%w: %s is a bbolt file with bucket %q and without %q", onefold.ErrNotStore, s.path, found.firstBucket, rootName)
	}
	if !found.found.ours {
		return nil // its creation was cut short
	}
	if v := parseFormat(found.found.meta[string(metaFormat)]); v > FormatVersion {
		return fmt.Errorf("%s: %w", s.path, newerFormat(v))
	}
	if found.torn {
		return damaged(s.path, errTorn)
	}
	if err := found.found.check(); err != nil {
		return damaged(s.path, err)
	}
	s.largest, s.counts = found.largest, found.found.counts
	return nil
}

// errTorn is refused because bbolt would silently take the older of the two meta pages.
var errTorn = errors.New("one of its two meta pages is not whole, so the last commit may be missing")

func damaged(path string, err error) error {
	return fmt.Errorf("%w: %s: %w; restore the directory from a backup", onefold.ErrDamaged, path, err)
}

// unfinished reports whether the file is what bbolt leaves when it is killed, or power is lost, while it
// writes the first pages: as short as those, and each zero or as in a new file, as far as it goes. Such a
// file has never held a record: STORE is written before the first.
func unfinished(file *os.File, size int64) bool {
	page := os.Getpagesize()
	if size > int64(4*page) {
		return false
	}
	b := make([]byte, size)
	if _, err := file.ReadAt(b, 0); err != nil {
		return false
	}
	for n := 0; n*page < len(b); n++ {
		if !begun(b[n*page:min((n+1)*page, len(b))], n) {
			return false
		}
	}
	return true
}

// begun reports whether b is the beginning of page n of a new bbolt file: two meta pages, and two without
// elements. A disk writes whole sectors, so that what a page says of itself is there or is zero.
func begun(b []byte, n int) bool {
	switch {
	case len(bytes.Trim(b, "\x00")) == 0:
		return true
	case len(b) < pageHeadLen+4:
		return false
	case n < 2:
		return native.Uint32(b[pageHeadLen:]) == bboltMagic
	}
	return native.Uint64(b) == uint64(n) && native.Uint16(b[10:]) == 0
}

// mainPath is where the main file of a directory is.
func mainPath(dir string) string { return filepath.Join(dir, mainFile) }
