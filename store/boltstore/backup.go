package boltstore

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
	"github.com/onefold-go/onefold/store/boltstore/internal/guard"
)

// asidePrefix begins the names of files that a backup needs for a while. What a crash leaves of them is removed
// by the next Open.
const asidePrefix = "backup-"

// Backup writes a copy of the store to w while it is in use: a tar archive that [Restore] reads, and that is,
// unpacked, the directory of a store (but only Restore moves the epoch on, so that no fencing token is given out
// twice). The copy is of one moment, after the call and before its return, and has every commit that returned
// before the call. Commits go on meanwhile, unless the main file has to be mapped anew
// while it is copied, and the upkeep waits until the files are open.
//
// The main file is first copied aside, in the store's directory, since a slow w would hold up the reuse of its
// pages; there must be room for that. Concurrent backups are allowed.
//
// Errors: [onefold.ErrFull] (no room to copy the main file), [onefold.ErrClosed], [onefold.ErrUnavailable],
// [onefold.ErrDamaged], those of w, and ctx.Err(). After an error what was written to w is no backup.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.views.enter() // Close waits for the copying, and not for w
	parts, err := s.freezeForBackup(ctx)
	s.views.leave()
	defer parts.close()
	if err != nil {
		return fmt.Errorf("backup of %s: %w", s.dir, err)
	}
	archive := tar.NewWriter(w)
	for _, p := range parts.list {
		if err := p.write(ctx, archive); err != nil {
			return fmt.Errorf("backup of %s: %s: %w", s.dir, p.name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("backup of %s: %w", s.dir, err)
	}
	return nil
}

// backupParts are the open files of a backup.
type backupParts struct {
	list  []backupPart
	aside string // the copy of the main file, to be removed
	done  func() // gives the shelf back: its files are not given back to the disk before
}

type backupPart struct {
	name string // in the archive
	file *os.File
	info os.FileInfo // from when it was opened: a part that is shorter by then is an error
}

func (p *backupParts) add(name, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	part := backupPart{name: name, file: file}
	part.info, err = file.Stat()
	p.list = append(p.list, part)
	return err
}

func (p *backupParts) close() {
	for _, part := range p.list {
		_ = part.file.Close()
	}
	if p.aside != "" {
		_ = os.Remove(p.aside)
	}
	if p.done != nil {
		p.done()
	}
}

// write puts the part into the archive.
func (p *backupPart) write(ctx context.Context, archive *tar.Writer) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: p.name, Mode: 0o600, Size: p.info.Size(), ModTime: p.info.ModTime()}
	if err := archive.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.CopyN(archive, reading{ctx, p.file}, p.info.Size())
	return err
}

// reading ends with its context.
type reading struct {
	ctx context.Context
	r   io.Reader
}

func (r reading) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// freezeForBackup copies the main file as it is between two commits, and opens the immutable files that it names.
// These may be unlinked afterwards.
func (s *Store) freezeForBackup(ctx context.Context) (parts backupParts, err error) {
	o := &pinOp{answer: newAnswer()}
	select {
	case s.upkeepTurn <- struct{}{}:
	case <-s.closing:
		return parts, s.closedError()
	case <-ctx.Done():
		return parts, ctx.Err()
	}
	err = s.do(o)
	shelf := s.shelves.use()
	parts.done = func() { s.shelves.done(shelf) }
	for _, f := range shelf.registry() {
		if err == nil {
			err = parts.add(path.Join(sealedDir, f.name()), f.path(s.dir))
		}
	}
	<-s.upkeepTurn
	if o.tx != nil {
		err = errors.Join(err, s.copyMain(ctx, o.tx, &parts), guard.Run("end reading", o.tx.Rollback))
	}
	return parts, err
}

// copyMain copies the main file aside and adds the copy to the parts.
func (s *Store) copyMain(ctx context.Context, tx *bolt.Tx, parts *backupParts) error {
	file, err := os.CreateTemp(s.dir, asidePrefix+"*")
	if err != nil {
		return err
	}
	parts.aside = file.Name()
	if err := disk.Allocate(file, 0, tx.Size()); err != nil {
		return errors.Join(notStored(err), file.Close())
	}
	to := &writing{ctx: ctx, store: s, w: file}
	err = guard.Run("copy "+s.path, func() error {
		_, err := tx.WriteTo(to)
		return err
	})
	if to.err != nil {
		err = to.err // bbolt says its text alone
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return parts.add(mainFile, parts.aside)
}

// writing ends with its context and with the store.
type writing struct {
	ctx   context.Context
	store *Store
	w     io.Writer
	err   error // the first one
}

func (w *writing) Write(b []byte) (n int, err error) {
	if err = w.store.enter(w.ctx); err == nil {
		n, err = w.w.Write(b)
	}
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// pinOp begins a read transaction between two commits, when all that it shows is durable.
type pinOp struct {
	answer
	tx *bolt.Tx
}

func (o *pinOp) weight() load       { return load{} }
func (o *pinOp) prepare(*group)     {}
func (o *pinOp) apply(*group) error { return nil }

func (o *pinOp) publish(g *group) {
	o.err = guard.Run("begin to read", func() (err error) {
		o.tx, err = g.store.db.Begin(false)
		return err
	})
}

// finish keeps the error of publish.
func (o *pinOp) finish(err error) {
	if err == nil {
		err = o.err
	}
	o.answer.finish(err)
}

// removeAside removes what backups have left in a directory.
func removeAside(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), asidePrefix) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
