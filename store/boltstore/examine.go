package boltstore

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/onefold-go/onefold"
)

// prepareDir makes the directory if there is none, and refuses one that is something else.
func prepareDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("open %s: %w", dir, err)
		}
		return syncDir(filepath.Dir(filepath.Clean(dir)))
	case err != nil:
		return fmt.Errorf("open %s: %w", dir, err)
	case !info.IsDir():
		return fmt.Errorf("%w: %s is a file; name a directory", onefold.ErrNotStore, dir)
	}
	mark, marked, err := readStoreMark(dir)
	if err != nil {
		return err
	}
	if marked && mark.format > FormatVersion {
		return fmt.Errorf("%s: %w", dir, newerFormat(mark.format))
	}
	_, err = os.Lstat(filepath.Join(dir, mainFile))
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open %s: %w", dir, err)
	case marked:
		return fmt.Errorf("%w: %s has %s and no %s; put the file back from a backup, or remove the directory if all may happen again",
			onefold.ErrDamaged, dir, storeFile, mainFile)
	}
	return refuseStrangers(dir)
}

// refuseStrangers refuses a directory without a store that holds anything. What the file system itself puts
// there, and what a creation that was cut short may leave, does not count.
func refuseStrangers(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	for _, e := range entries {
		switch e.Name() {
		case "lost+found", checkFile, storeFile + ".new":
		default:
			return fmt.Errorf("%w: %s holds %q and no store; name an empty directory or a new one", onefold.ErrNotStore, dir, e.Name())
		}
	}
	return nil
}

// examine looks at the whole main file before it is opened for writing. bbolt walks over all pages when it
// opens a file, in a goroutine of its own; meeting a damaged page there would end the process. Here the same
// walk is done where panics and faults can be caught.
func (s *Store) examine(deadline time.Time) error {
	path := filepath.Join(s.dir, mainFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", s.dir, err)
	}
	_, marked, err := readStoreMark(s.dir)
	if err != nil {
		return err
	}
	if info.Size() == 0 && !marked {
		return nil // creation was cut short before the first byte
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a regular file", onefold.ErrNotStore, path)
	}
	if info.Size() == 0 {
		return damaged(path, errors.New("the file is empty"))
	}
	db, err := openFile(s.dir, deadline, &bolt.Options{ReadOnly: true}, s.options.LockWait)
	switch {
	case errors.Is(err, onefold.ErrInUse):
		return err
	case err == nil:
		err = guarded("read "+path, func() error { return db.View(func(tx *bolt.Tx) error { return s.examineTx(tx, path, marked) }) })
		return errors.Join(err, guarded("close", db.Close))
	case marked:
		return damaged(path, err)
	case unfinished(path):
		return os.Remove(path)
	}
	return fmt.Errorf("%w: %s: %w", onefold.ErrNotStore, path, err)
}

func damaged(path string, err error) error {
	return fmt.Errorf("%w: %s: %w; restore the directory from a backup", onefold.ErrDamaged, path, err)
}

// examineTx refuses a file of someone else, one that has lost its end, and one with a page that cannot be
// right.
func (s *Store) examineTx(tx *bolt.Tx, path string, marked bool) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return damaged(path, fmt.Errorf("it has %d bytes and should have %d", info.Size(), tx.Size()))
	}
	first, _ := tx.Cursor().First()
	switch {
	case tx.Bucket(rootName) != nil:
	case marked:
		return damaged(path, fmt.Errorf("bucket %q is missing", rootName))
	case first != nil:
		return fmt.Errorf("%w: %s is a bbolt file with bucket %q and without %q", onefold.ErrNotStore, path, first, rootName)
	}
	if err := s.measure(tx); err != nil {
		return damaged(path, err)
	}
	return nil
}

// measure reads through the whole file and finds the largest value, unless that is done already for this
// state of the file.
func (s *Store) measure(tx *bolt.Tx) error {
	if s.examined == tx.ID() {
		return nil
	}
	s.examined = tx.ID()
	return tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
		largest, err := touch(b)
		s.largest = max(s.largest, largest)
		return err
	})
}

// touch reads both ends of every key and value of a bucket and of those in it. It returns the size of the
// largest value.
func touch(b *bolt.Bucket) (largest int, err error) {
	var last []byte
	sum := byte(0)
	cursor := b.Cursor()
	for key, v := cursor.First(); key != nil; key, v = cursor.Next() {
		if last != nil && bytes.Compare(last, key) >= 0 {
			return largest, fmt.Errorf("key %x comes after %x", key, last)
		}
		last = key
		largest = max(largest, len(v))
		if len(v) > 0 {
			sum ^= v[0] ^ v[len(v)-1]
		}
		if v != nil {
			continue
		}
		if child := b.Bucket(key); child != nil {
			inside, err := touch(child)
			if err != nil {
				return largest, err
			}
			largest = max(largest, inside)
		}
	}
	_ = sum
	return largest, nil
}

// openFile opens the main file through bbolt. Errors: ErrInUse, and those of bbolt as they are.
func openFile(dir string, deadline time.Time, o *bolt.Options, wait time.Duration) (*bolt.DB, error) {
	var file *os.File
	o.OpenFile = func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	}
	// bbolt takes 0 for "wait for ever".
	o.Timeout = max(time.Until(deadline), time.Millisecond)
	path := filepath.Join(dir, mainFile)
	var db *bolt.DB
	err := guarded("open "+path, func() (err error) {
		db, err = bolt.Open(path, 0o600, o)
		return err
	})
	var p *panicked
	if errors.As(err, &p) && file != nil {
		_ = file.Close() // or the lock would stay
	}
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, inUse(dir, wait)
	}
	return db, err
}

// bboltMagic stands behind the page header of the first page of a bbolt file.
const (
	bboltMagic   = 0xED0CDAED
	bboltMagicAt = 16
)

// unfinished reports whether the file is what bbolt leaves when it is killed while it writes the first
// pages: as short as those, and zero or with its mark as far as it goes.
func unfinished(path string) bool {
	b, err := os.ReadFile(path)
	if err != nil || len(b) > 4*os.Getpagesize() {
		return false
	}
	if len(bytes.Trim(b, "\x00")) == 0 {
		return true
	}
	return len(b) >= bboltMagicAt+4 && binary.NativeEndian.Uint32(b[bboltMagicAt:]) == bboltMagic
}

func random() (b [16]byte) {
	rand.Read(b[:]) // never fails
	return b
}
