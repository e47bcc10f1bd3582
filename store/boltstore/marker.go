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

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
)

// The files of a store's directory.
const (
	mainFile    = "main.db"   // the bbolt file
	storeFile   = "STORE"     // written when main.db is complete: from then on its loss is damage
	restoreFile = "RESTORING" // there while Restore is at work: what is there is no store yet
	checkFile   = "CHECK"     // left by a fail stop: check main.db page by page before use
)

// storeMark is what STORE says. It tells an older copy of main.db from the one that was last in use.
type storeMark struct {
	format   uint32
	id       string
	epoch    uint64 // of the last Open; 0: not noted
	position uint64 // last one given out when the store was closed
	closed   bool   // closed in order in that epoch, with that position
}

// The lines of STORE.
const (
	markTitle    = "onefold store"
	markFormat   = "format "
	markID       = "id "
	markEpoch    = "epoch "
	markPosition = "position "
)

func (m storeMark) text() string {
	text := fmt.Sprintf("%s\n%s%d\n%s%s\n", markTitle, markFormat, m.format, markID, m.id)
	if m.epoch > 0 {
		text += fmt.Sprintf("%s%d\n", markEpoch, m.epoch)
	}
	if m.closed {
		text += fmt.Sprintf("%s%d\n", markPosition, m.position)
	}
	return text
}

// parseStoreMark reads STORE. Lines that it does not know are of a newer version and are skipped.
func parseStoreMark(b []byte) (storeMark, error) {
	lines := strings.Split(string(bytes.TrimSpace(b)), "\n")
	if lines[0] != markTitle {
		return storeMark{}, fmt.Errorf("first line is not %q", markTitle)
	}
	var m storeMark
	for _, line := range lines[1:] {
		name, v, _ := strings.Cut(line, " ")
		var err error
		switch name + " " {
		case markFormat:
			var n uint64
			n, err = strconv.ParseUint(v, 10, 32)
			m.format = uint32(n)
		case markID:
			m.id = v
		case markEpoch:
			m.epoch, err = strconv.ParseUint(v, 10, 64)
		case markPosition:
			m.position, err = strconv.ParseUint(v, 10, 64)
			m.closed = true
		}
		if err != nil {
			return storeMark{}, fmt.Errorf("%s is %q", name, v)
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

// outdated says why main.db with this head is an older copy than the one that was last in use here, if it is.
func (m storeMark) outdated(h *head) error {
	const remedy = "put the newer file back, or restore a whole backup"
	switch {
	case h.epoch < m.epoch:
		return fmt.Errorf("%w: %s is an older copy: it was last opened in epoch %d and the directory in epoch %d; %s",
			onefold.ErrDamaged, mainFile, h.epoch, m.epoch, remedy)
	case h.epoch == m.epoch && m.closed && h.position != m.position:
		return fmt.Errorf("%w: %s is an older copy: its last position is %d and the directory was closed with %d; %s",
			onefold.ErrDamaged, mainFile, h.position, m.position, remedy)
	}
	return nil
}

// noteEpoch makes STORE say which epoch runs. On a full disk it stays as it is, which is true still, only
// older: a store must open to be cleaned up.
func (s *Store) noteEpoch(marked bool) error {
	err := writeStoreMark(s.dir, storeMark{format: FormatVersion, id: s.info.ID, epoch: s.info.Epoch})
	if marked && disk.Full(err) {
		return nil
	}
	return err
}

// noteClose makes STORE say with which position the store was closed in order.
func (s *Store) noteClose() error {
	err := writeStoreMark(s.dir, storeMark{
		format: FormatVersion, id: s.info.ID, epoch: s.info.Epoch, position: s.loadHead().position, closed: true,
	})
	if disk.Full(err) {
		return nil // see noteEpoch
	}
	return err
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
