package boltstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sealed"
)

// openShelf opens the immutable files that the main file names.
func (s *Store) openShelf(list registry) error {
	all := &change{}
	err := s.openAll(list, all)
	now, groupErr := (&shelf{}).after(all, func() error { return nil })
	_ = s.shelves.replace(now) // what is open is closed with the store; nothing was before
	return errors.Join(err, groupErr)
}

func (s *Store) openAll(list registry, all *change) error {
	for _, f := range list {
		if f.head.Kind == sealed.KindRecords {
			opened, err := s.openSegment(f)
			if err != nil {
				return err
			}
			all.addSegments = append(all.addSegments, opened)
			continue
		}
		opened, err := s.openIndex(f)
		if err != nil {
			return err
		}
		all.addIndexes = append(all.addIndexes, opened)
	}
	return nil
}

// openSegment opens a segment file and compares it with what it should be.
func (s *Store) openSegment(f sealedFile) (*segmentFile, error) {
	opened, err := sealed.OpenRecords(f.path(s.dir), admitSealed)
	if err != nil {
		return nil, s.missing(&f, err)
	}
	if err := f.is(opened.Head(), opened.Size()); err != nil {
		return nil, errors.Join(damaged(opened.Path(), err), opened.Close())
	}
	return &segmentFile{sealedFile: f, Records: opened}, nil
}

// openIndex opens an index file and compares it with what it should be.
func (s *Store) openIndex(f sealedFile) (*indexFile, error) {
	opened, err := sealed.OpenIndex(f.path(s.dir), admitSealed)
	if err != nil {
		return nil, s.missing(&f, err)
	}
	if err := f.is(opened.Head(), opened.Size()); err != nil {
		return nil, errors.Join(damaged(opened.Path(), err), opened.Close())
	}
	return &indexFile{sealedFile: f, Index: opened}, nil
}

// is compares an open file with what it should be.
func (f *sealedFile) is(head *sealed.Head, size int64) error {
	if err := head.Differs(&f.head); err != nil {
		return err
	}
	if size != f.bytes {
		return fmt.Errorf("it has %d bytes and should have %d", size, f.bytes)
	}
	return nil
}

// missing names a file that is not there.
func (s *Store) missing(f *sealedFile, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing, the %v of positions %d to %d; put the file back, or restore the directory from a backup",
			onefold.ErrDamaged, f.path(s.dir), f.head.Kind, f.head.First, f.head.End-1)
	}
	return err
}

// admitSealed judges the pages of an immutable file before bbolt sees them. Its leaves are judged when they are
// read: they hold checksums.
func admitSealed(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := surveyTree(file, info.Size()); err != nil {
		return damaged(file.Name(), err)
	}
	return nil
}

// removeLeftovers removes immutable files that the main file does not name: those whose making was cut short, and
// those whose end was. One that reaches beyond the last position of the main file is neither: the main file is a
// copy from before it was made. It is called when all else of the store could be read, so that a main file that
// was put back by mistake does not take the files of the right one with it.
func (s *Store) removeLeftovers(list registry) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, sealedDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for i := range list {
		named[list[i].name()] = true
	}
	var leftovers []string
	for _, e := range entries {
		if !sealedName(e.Name()) || named[e.Name()] {
			continue
		}
		if last, ok := lastPosition(e.Name()); ok && last > s.head.position {
			return fmt.Errorf("%w: %s is an older copy: its last position is %d and %s reaches to %d; put the newer file back, or restore a whole backup",
				onefold.ErrDamaged, mainFile, s.head.position, filepath.Join(sealedDir, e.Name()), last)
		}
		leftovers = append(leftovers, e.Name())
	}
	for _, name := range leftovers {
		if err := os.Remove(filepath.Join(s.dir, sealedDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// lastPosition reads the last position from the name of an immutable file.
func lastPosition(name string) (uint64, bool) {
	parts := strings.SplitN(name, "-", 3)
	if len(parts) != 3 {
		return 0, false
	}
	last, err := strconv.ParseUint(parts[1], 16, 64)
	return last, err == nil
}
