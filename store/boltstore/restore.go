package boltstore

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
	"github.com/onefold-go/onefold/store/boltstore/internal/guard"
)

// restoredEpochs is how far Restore moves the epoch on, so that fencing tokens that were given out after the
// backup was made stay below those that will be.
const restoredEpochs = 1 << 12

// Restore makes a store of a backup in dir, which must be empty or not be there, and checks it as [Check] does.
// Nobody may use the directory before Restore has returned; what it leaves after an error is no store and is
// refused by [Open].
//
// The restored store is the same store at an earlier time: what was done after the backup was made happens again
// when it is delivered again. Its epoch is moved on, so that its fencing tokens are above all that were given out,
// unless the store was opened 4096 times since.
//
// Errors: [onefold.ErrNotStore] (dir is not empty, or r is no backup), [onefold.ErrDamaged], [onefold.ErrNewerFormat],
// those of r and of the file system, and ctx.Err().
func Restore(ctx context.Context, r io.Reader, dir string) error {
	if dir == "" {
		return fmt.Errorf("%w: dir is empty; name a directory", onefold.ErrInvalid)
	}
	if err := prepareRestore(dir); err != nil {
		return err
	}
	err := unpack(ctx, r, dir)
	if err == nil {
		err = openRestored(dir)
	}
	if err == nil {
		var report Report
		if report, err = Check(ctx, dir); err == nil {
			err = report.Err()
		}
	}
	if err == nil {
		err = errors.Join(os.Remove(filepath.Join(dir, restoreFile)), disk.SyncDir(dir))
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", dir, err)
	}
	return nil
}

// prepareRestore makes the directory, or refuses one that holds something. It marks it as no store yet.
func prepareRestore(dir string) error {
	if err := makeDir(filepath.Clean(dir)); err != nil {
		return fmt.Errorf("restore %s: %w", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("restore %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.Name() != "lost+found" {
			return fmt.Errorf("%w: %s holds %q; restore into an empty directory or a new one", onefold.ErrNotStore, dir, e.Name())
		}
	}
	err = writeSynced(filepath.Join(dir, restoreFile), "a restore was begun here and has not come to its end\n")
	if err = errors.Join(err, disk.SyncDir(dir)); err != nil {
		return fmt.Errorf("restore %s: %w", dir, err)
	}
	return nil
}

// unpack writes the files of the archive.
func unpack(ctx context.Context, r io.Reader, dir string) error {
	if err := makeDir(filepath.Join(dir, sealedDir)); err != nil {
		return err
	}
	archive, found := tar.NewReader(reading{ctx, r}), false
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, tar.ErrHeader) {
			return fmt.Errorf("%w: this is no archive: %w", onefold.ErrNotStore, err)
		}
		if err != nil {
			return err
		}
		name := h.Name
		base, isSealed := strings.CutPrefix(name, sealedDir+"/")
		switch {
		case name == mainFile:
			found = true
		case isSealed && sealedName(base) && filepath.Base(base) == base:
			name = filepath.Join(sealedDir, base)
		default:
			return fmt.Errorf("%w: the archive holds %q, which no backup does", onefold.ErrNotStore, h.Name)
		}
		if err := unpackFile(archive, filepath.Join(dir, filepath.FromSlash(name)), h.Size); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%w: the archive has no %s; it is no backup or not a whole one", onefold.ErrNotStore, mainFile)
	}
	return errors.Join(disk.SyncDir(filepath.Join(dir, sealedDir)), disk.SyncDir(dir))
}

func unpackFile(from io.Reader, path string, size int64) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(file, from)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, file.Sync(), file.Close())
}

// openRestored opens the store once, which moves its epoch on and writes STORE, and closes it as if its process
// had died: what was under way when the backup was made was cut short.
func openRestored(dir string) error {
	o, err := (*Options)(nil).checked()
	if err != nil {
		return err
	}
	s := newStore(dir, o)
	s.restoring = true
	err = guard.Run("open "+dir, s.open)
	_ = closeAll(s.shelves.replace(&shelf{}))
	if s.db != nil {
		s.snap.close(onefold.ErrClosed)
		err = errors.Join(err, guard.Run("close", s.db.Close))
	}
	return err
}
