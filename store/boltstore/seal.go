package boltstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
	"github.com/onefold-go/onefold/store/boltstore/internal/sealed"
)

// sealStep is how many records are copied in one look at the snapshot, whose lock commits need too.
const sealStep = 128

// errStopped ends work of the upkeep when the store is closed.
var errStopped = fmt.Errorf("%w: the upkeep has ended", onefold.ErrClosed)

// sealing writes the files of one segment.
type sealing struct {
	store    *Store
	span     positions
	segment  *sealed.RecordsWriter // nil: no record has come
	entries  []sealed.Entry
	expires  time.Duration
	written  int64
	unmarked []uint64 // positions whose marks are in the new file
}

// seal writes a frozen segment into files of its own and lets these count.
func (s *Store) seal(r run) (done work, err error) {
	x := &sealing{store: s, span: r.positions, entries: make([]sealed.Entry, 0, r.records())}
	for _, p := range r.pieces {
		if err := s.readPiece(p, x.add); err != nil {
			x.abort()
			return done, err
		}
	}
	flip := &flipOp{answer: newAnswer(), thaw: true}
	if x.segment != nil {
		segment, err := x.finish()
		if err != nil {
			return done, err
		}
		flip.change.addSegments = []*segmentFile{segment}
		index, err := x.index()
		if err != nil {
			return done, errors.Join(err, s.discard(&flip.change))
		}
		flip.change.addIndexes = []*indexFile{index}
		done.records, done.bytes = len(x.entries), segment.bytes+index.bytes
	}
	flip.unmark = x.unmarked
	return done, s.flip(flip)
}

// rewrite writes a segment anew, so that what was erased is gone from the disk.
func (s *Store) rewrite(old *segmentFile) (done work, err error) {
	x := &sealing{store: s, span: positions{old.head.First, old.head.End}}
	for at := old.head.First; at < old.head.End; {
		if err = s.between(); err == nil {
			at, err = old.From(at, x.add)
		}
		if err != nil {
			x.abort()
			return done, err
		}
	}
	written, err := x.finish()
	if err != nil {
		return done, err
	}
	done.records, done.bytes = len(x.entries), written.bytes
	c := change{addSegments: []*segmentFile{written}, dropSegments: []*segmentFile{old}}
	return done, s.flip(&flipOp{answer: newAnswer(), change: c, unmark: x.unmarked})
}

// add adds a record to the segment file, or the mark that counts instead.
func (x *sealing) add(at uint64, stored []byte) (err error) {
	if mark := x.store.marks.of(at); mark != nil {
		stored = mark
		x.unmarked = append(x.unmarked, at)
	}
	r, err := parseLife(stored)
	if err != nil {
		return unreadable(err, "record %d", at)
	}
	if x.segment == nil {
		if x.segment, err = x.create(); err != nil {
			return err
		}
		x.written = r.at
	}
	x.expires, x.written = max(x.expires, r.expires), min(x.written, r.at)
	x.entries = append(x.entries, sealed.Entry{Hash: x.store.formHash(&r.form), Position: at})
	return x.segment.Add(at, stored)
}

// newFile describes a file that is about to be written.
func (s *Store) newFile(kind sealed.Kind, span positions) sealedFile {
	return sealedFile{head: sealed.Head{Kind: kind, Store: s.id, File: random(), First: span.first, End: span.end}}
}

func (x *sealing) create() (*sealed.RecordsWriter, error) {
	if err := makeDir(filepath.Join(x.store.dir, sealedDir)); err != nil {
		return nil, err
	}
	f := x.store.newFile(sealed.KindRecords, x.span)
	return sealed.CreateRecords(f.path(x.store.dir), f.head)
}

func (x *sealing) abort() {
	if x.segment != nil {
		x.segment.Abort()
	}
}

// finish makes the segment file durable and opens it.
func (x *sealing) finish() (*segmentFile, error) {
	x.segment.SetLife(x.expires, x.written)
	var f sealedFile
	var err error
	if f.head, f.bytes, err = x.segment.Finish(); err != nil {
		return nil, err
	}
	return x.store.openSegment(f)
}

// index writes the index of the segment.
func (x *sealing) index() (*indexFile, error) {
	var err error
	if x.entries, err = sealed.Sort(x.entries, x.store.between); err != nil {
		return nil, err
	}
	f := x.store.newFile(sealed.KindIndex, x.span)
	f.head.Records = uint64(len(x.entries))
	return x.store.writeIndex(f, func(w *sealed.IndexWriter) error {
		for i, e := range x.entries {
			if i%sealStep == 0 {
				if err := x.store.between(); err != nil {
					return err
				}
			}
			if err := w.Add(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeIndex writes an index file with what fill adds, and opens it.
func (s *Store) writeIndex(f sealedFile, fill func(w *sealed.IndexWriter) error) (*indexFile, error) {
	w, err := sealed.CreateIndex(f.path(s.dir), f.head)
	if err != nil {
		return nil, err
	}
	if err := fill(w); err != nil {
		w.Abort()
		return nil, err
	}
	if f.head, f.bytes, err = w.Finish(); err != nil {
		return nil, err
	}
	return s.openIndex(f)
}

// readPiece visits the records of a frozen piece, in steps that copy some out of the snapshot.
func (s *Store) readPiece(p piece, visit func(at uint64, record []byte) error) error {
	var copied struct {
		at   [sealStep]uint64
		end  [sealStep]int
		data []byte
	}
	for from, more := p.first, true; more; {
		if err := s.between(); err != nil {
			return err
		}
		n := 0
		copied.data = copied.data[:0]
		err := s.snap.read(func(b *buckets) error {
			bucket, err := b.journal.piece(p.first)
			if err != nil || bucket == nil {
				return errors.Join(err, missing(segName))
			}
			cursor := bucket.cursor()
			key, stored := cursor.Seek(position(from))
			for ; key != nil && n < sealStep; key, stored = cursor.Next() {
				record, err := bucket.check(key, stored)
				if err != nil {
					return err
				}
				if copied.at[n], err = parsePosition(key); err != nil {
					return err
				}
				copied.data = append(copied.data, record...)
				copied.end[n] = len(copied.data)
				n++
			}
			more = key != nil
			return nil
		})
		if err != nil {
			return err
		}
		start := 0
		for i := range n {
			if err := visit(copied.at[i], copied.data[start:copied.end[i]]); err != nil {
				return err
			}
			start, from = copied.end[i], copied.at[i]+1
		}
	}
	return nil
}

// discard removes files that were written and do not count.
func (s *Store) discard(c *change) error {
	var files []sealedFile
	var errs []error
	for _, f := range c.addSegments {
		files, errs = append(files, f.sealedFile), append(errs, f.Close())
	}
	for _, f := range c.addIndexes {
		files, errs = append(files, f.sealedFile), append(errs, f.Close())
	}
	return errors.Join(append(errs, removeFiles(s.dir, files))...)
}

// syncSealed makes the names of the files in the directory durable.
func (s *Store) syncSealed() error {
	err := disk.SyncDir(filepath.Join(s.dir, sealedDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
