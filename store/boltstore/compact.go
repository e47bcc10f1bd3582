package boltstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
	"github.com/onefold-go/onefold/store/boltstore/internal/guard"
)

// compacting ends the name of the main file that Compact writes.
const compacting = ".compacting"

// compactBytes is how much Compact writes in one transaction.
const compactBytes = 4 << 20

// Compact writes main.db of a store that is not open anew, without the pages that are free, so that it is as
// small as it can be and nothing is left in it of what was deleted. It checks the store as [Check] does first,
// and makes sure of the room that the new file may need; the old file stays in use until the new one is complete, and
// if anything fails. Segment files need none of this: they end by themselves, and what is erased in them is written
// anew in the background.
//
// It returns the size of main.db before and after. Errors: [onefold.ErrInUse], [onefold.ErrNotStore],
// [onefold.ErrDamaged], [onefold.ErrFull], those of the file system, and ctx.Err(), which is looked at before and after
// the copying, not in the middle of it.
func Compact(ctx context.Context, dir string) (before, after int64, err error) {
	report, err := Check(ctx, dir)
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("compact %s: %w", dir, err)
	}
	o, err := (&Options{LockWait: -1}).checked()
	if err != nil {
		return 0, 0, err
	}
	s := newStore(dir, o)
	if s.db, err = s.openFile(time.Now()); err != nil {
		return 0, 0, err
	}
	aside := mainPath(dir) + compacting
	before, after, err = s.compactInto(ctx, aside)
	if err == nil {
		// The lock of the old file is held until the new one stands in its place: who waits for it looks again.
		err = os.Rename(aside, mainPath(dir))
	}
	if err == nil {
		err = disk.SyncDir(dir)
	} else {
		_ = os.Remove(aside)
	}
	if err = errors.Join(err, guard.Run("close", s.db.Close)); err != nil {
		return 0, 0, fmt.Errorf("compact %s: %w", dir, err)
	}
	return before, after, nil
}

// compactInto writes the compact copy.
func (s *Store) compactInto(ctx context.Context, path string) (before, after int64, err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, 0, err
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return 0, 0, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, 0, err
	}
	// bbolt must not meet a full disk, and must make the file itself: the room is tried out and given back.
	err = disk.Allocate(file, 0, info.Size())
	if err = errors.Join(err, file.Close(), os.Remove(path)); err != nil {
		return 0, 0, notStored(err)
	}
	o := &bolt.Options{NoFreelistSync: true, FreelistType: bolt.FreelistMapType, NoSync: true, PageSize: s.db.Info().PageSize}
	err = guard.Run("compact "+s.path, func() error {
		to, err := bolt.Open(path, 0o600, o)
		if err != nil {
			return err
		}
		if err = bolt.Compact(to, s.db, compactBytes); err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = to.Sync()
		}
		return errors.Join(err, to.Close())
	})
	if err != nil {
		return 0, 0, err
	}
	small, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	return info.Size(), small.Size(), nil
}

// leftAside removes what operations on the directory have left when they were cut short.
func leftAside(dir string) error {
	if err := os.Remove(filepath.Join(dir, mainFile+compacting)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return removeAside(dir)
}
