package boltstore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
)

// The files of a store's directory.
const (
	mainFile  = "main.db" // the bbolt file
	storeFile = "STORE"   // written when main.db is complete: from then on its loss is damage
	checkFile = "CHECK"   // left by a fail stop: check main.db page by page before use
)

// storeMark is what STORE says.
type storeMark struct {
	format uint32
	id     string
}

// The lines of STORE.
const (
	markTitle  = "onefold store"
	markFormat = "format "
	markID     = "id "
)

func (m storeMark) text() string {
	return fmt.Sprintf("%s\n%s%d\n%s%s\n", markTitle, markFormat, m.format, markID, m.id)
}

// parseStoreMark reads STORE. Lines that it does not know are of a newer version and are skipped.
func parseStoreMark(b []byte) (storeMark, error) {
	lines := strings.Split(string(bytes.TrimSpace(b)), "\n")
	if lines[0] != markTitle {
		return storeMark{}, fmt.Errorf("first line is not %q", markTitle)
	}
	var m storeMark
	for _, line := range lines[1:] {
		if v, ok := strings.CutPrefix(line, markFormat); ok {
			n, err := strconv.ParseUint(v, 10, 32)
			if err != nil {
				return storeMark{}, fmt.Errorf("format is %q", v)
			}
			m.format = uint32(n)
		}
		if v, ok := strings.CutPrefix(line, markID); ok {
			m.id = v
		}
	}
	if m.format == 0 || m.id == "" {
		return storeMark{}, errors.New("format or id is missing")
	}
	return m, nil
}

// readStoreMark reads STORE of a directory. ok is false if there is none.
func readStoreMark(dir string) (m storeMark, ok bool, err error) {
	b, err := os.ReadFile(filepath.Join(dir, storeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
	}
	if m, err = parseStoreMark(b); err != nil {
		return m, false, damaged(filepath.Join(dir, storeFile), err)
	}
	return m, true, nil
}

// writeStoreMark makes STORE durable: written aside, synced, and renamed into place.
func writeStoreMark(dir string, m storeMark) error {
	aside := filepath.Join(dir, storeFile+".new")
	if err := writeSynced(aside, m.text()); err != nil {
		return err
	}
	if err := os.Rename(aside, filepath.Join(dir, storeFile)); err != nil {
		return err
	}
	return disk.SyncDir(dir)
}

// writeCheckMark leaves the mark of a fail stop.
func writeCheckMark(dir string, reason error) error {
	err := writeSynced(filepath.Join(dir, checkFile), fmt.Sprintf("a write failed; the next open checks main.db\n%v\n", reason))
	return errors.Join(err, disk.SyncDir(dir))
}

func removeCheckMark(dir string) error {
	if err := os.Remove(filepath.Join(dir, checkFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return disk.SyncDir(dir)
}

func hasCheckMark(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, checkFile))
	return err == nil
}

func writeSynced(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}
