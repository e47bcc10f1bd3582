package boltstore

import (
	"fmt"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
)

// largestStep bounds how far the file is grown beyond what a group needs. Less, it is doubled, so that small
// stores stay small.
const largestStep = 16 << 20

// reserve makes sure, before bbolt begins to commit, that the disk has room for all that the group may
// write. When bbolt itself finds the disk full it is too late to go back quietly: it walks over the whole
// file to find the free pages again, where it can neither be stopped nor caught.
func (s *Store) reserve(g *group, tx *bolt.Tx) error {
	need := s.mapping.need(g, tx.Size(), int64(s.db.Stats().FreePageN))
	if g.load.grows {
		s.room.need = need
	}
	from := s.mapping.reserved
	if need <= from {
		return nil
	}
	err := s.grow(from, need+min(need, largestStep))
	if disk.Full(err) {
		err = s.grow(from, need)
	}
	if err != nil {
		return fmt.Errorf("grow %s to %d bytes: %w", s.path, need, err)
	}
	return nil
}

// grow gives the file blocks up to a size that is rounded to whole pages.
func (s *Store) grow(from, to int64) error {
	to = (to + s.mapping.pageSize - 1) / s.mapping.pageSize * s.mapping.pageSize
	if limit := s.options.hooks.maxFile; limit != nil && limit.Load() > 0 && to > limit.Load() {
		return syscall.ENOSPC
	}
	if err := disk.Allocate(s.file, from, to); err != nil {
		return err
	}
	// No sync here: that of the data pages, which comes before the meta page that makes them count, takes the
	// new size to the disk as well.
	s.mapping.reserved = to
	return nil
}
