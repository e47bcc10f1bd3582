package boltstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
)

// prepareDir makes the directory if there is none, and refuses one that is something else, or that is being restored
// by somebody else than the caller.
func prepareDir(dir string, restoring bool) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := makeDir(filepath.Clean(dir)); err != nil {
			return fmt.Errorf("open %s: %w", dir, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("open %s: %w", dir, err)
	case !info.IsDir():
		return fmt.Errorf("%w: %s is a file; name a directory", onefold.ErrNotStore, dir)
	}
	if _, err := os.Lstat(filepath.Join(dir, restoreFile)); err == nil && !restoring {
		return fmt.Errorf("%w: %s holds a restore that was cut short; empty the directory and restore again", onefold.ErrNotStore, dir)
	}
	mark, marked, err := readStoreMark(dir)
	if err != nil {
		return err
	}
	if marked && mark.format > FormatVersion {
		return fmt.Errorf("%s: %w", dir, newerFormat(mark.format))
	}
	info, err = os.Stat(mainPath(dir))
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is not a regular file", onefold.ErrNotStore, mainPath(dir))
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open %s: %w", dir, err)
	case marked:
		return fmt.Errorf("%w: %s has %s and no %s; restore a whole backup into an empty directory, or remove this one if all may happen again",
			onefold.ErrDamaged, dir, storeFile, mainFile)
	}
	return refuseStrangers(dir)
}

// makeDir makes a directory and those above it that are missing. Each is made durable in the one above.
func makeDir(dir string) error {
	parent := filepath.Dir(dir)
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return disk.SyncDir(parent)
}

// syncAbove makes a directory durable in those above it: an Open that made some of them may have ended before
// they were synced. One that may not be read, or that cannot be synced, ends the way up, except that the first
// must be synced if it can be opened.
func syncAbove(dir string) error {
	at, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for first := true; at != filepath.Dir(at); first = false {
		at = filepath.Dir(at)
		switch err := disk.SyncDir(at); {
		case err == nil:
		case first && !errors.Is(err, fs.ErrPermission):
			return err
		default:
			return nil
		}
	}
	return nil
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
		case sealedDir:
			return fmt.Errorf("%w: %s holds %q, which is left of a store, and no %s; restore a whole backup into an empty directory",
				onefold.ErrDamaged, dir, sealedDir, mainFile)
		default:
			return fmt.Errorf("%w: %s holds %q and no store; name an empty directory or a new one", onefold.ErrNotStore, dir, e.Name())
		}
	}
	return nil
}
