package boltstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dchest/siphash"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sealed"
)

// Report is what [Check] has found. It holds nothing of what users have stored, except the names of their own
// buckets in main.db.
type Report struct {
	Dir    string
	ID     string // identity of the store
	Format uint32
	Epoch  uint64
	Last   uint64 // position
	Files  []FileReport
}

// FileReport is what Check has found in one file.
type FileReport struct {
	Name     string
	Bytes    int64
	PageSize int64
	Pages    uint64 // in use or free
	Branches int
	Leaves   int
	Further  int               // pages that continue a large one
	Entries  map[string]uint64 // by bucket of the store
	Problem  error             // what is wrong with it, mostly an ErrDamaged; nil: nothing
}

// Err joins what is wrong with the files, or is nil.
func (r Report) Err() error {
	errs := make([]error, len(r.Files))
	for i := range r.Files {
		if p := r.Files[i].Problem; p != nil {
			errs[i] = fmt.Errorf("%s: %w", r.Files[i].Name, p)
		}
	}
	return errors.Join(errs...)
}

// String is the report as text, a line for each file.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "store %s, format %d, epoch %d, position %d, in %s\n", r.ID, r.Format, r.Epoch, r.Last, r.Dir)
	for _, f := range r.Files {
		fmt.Fprintf(&b, "%s: %d bytes, %d pages of %d, %d branches, %d leaves, %d further", f.Name, f.Bytes, f.Pages, f.PageSize,
			f.Branches, f.Leaves, f.Further)
		for _, name := range slices.Sorted(maps.Keys(f.Entries)) {
			fmt.Fprintf(&b, ", %s %d", name, f.Entries[name])
		}
		if f.Problem != nil {
			fmt.Fprintf(&b, ": %v", f.Problem)
		} else {
			b.WriteString(": whole")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Check reads all files of a store that is not open, compares all checksums and counts, and each index with its
// segments. It writes nothing. What is wrong with the files is in the report; an error says that Check itself
// could not be done.
//
// Errors: [onefold.ErrInUse], [onefold.ErrNotStore] (there is none in dir), those of the file system, and ctx.Err().
func Check(ctx context.Context, dir string) (Report, error) {
	r := Report{Dir: dir}
	main, err := os.Open(mainPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		class := onefold.ErrNotStore
		if _, marked, _ := readStoreMark(dir); marked {
			class = onefold.ErrDamaged
		}
		return r, fmt.Errorf("%w: %s has no %s", class, dir, mainFile)
	}
	if err != nil {
		return r, err
	}
	defer func() { _ = main.Close() }()
	locked, err := lockFile(main, time.Now())
	switch {
	case err != nil:
		return r, fmt.Errorf("lock %s: %w", main.Name(), err)
	case !locked:
		return r, inUse(dir, 0)
	}
	c := &checking{ctx: ctx, dir: dir, report: &r, sums: map[uint64]*segmentSum{}}
	found, err := c.file(mainFile, main)
	if err != nil || found == nil {
		return r, err
	}
	list, err := c.judgeMain(&found.found)
	if err != nil {
		r.Files[0].Problem = err
		return r, nil
	}
	return r, c.sealed(list)
}

// checking is a Check under way.
type checking struct {
	ctx     context.Context
	dir     string
	report  *Report
	hashKey hashKey
	sums    map[uint64]*segmentSum // by first position
	list    registry
}

// file walks over all pages of a file and reports on it. found is nil if they are not whole.
func (c *checking) file(name string, f *os.File) (found *survey, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	one := FileReport{Name: name, Bytes: info.Size()}
	found, err = surveyFile(f, info.Size())
	if err != nil {
		one.Problem = asDamage(err)
	} else {
		one.PageSize, one.Pages = found.page, found.pages
		one.Branches, one.Leaves, one.Further = found.used.branch, found.used.leaf, found.used.more
		if found.torn {
			one.Problem = asDamage(errTorn)
		}
	}
	c.report.Files = append(c.report.Files, one)
	return found, c.ctx.Err()
}

// asDamage marks what is wrong with a file.
func asDamage(err error) error {
	if errors.Is(err, onefold.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w: %w", onefold.ErrDamaged, err)
}

// judgeMain looks at what the main file holds.
func (c *checking) judgeMain(found *content) (registry, error) {
	get := func(key []byte) []byte { return found.meta[string(key)] }
	if !found.ours {
		return nil, fmt.Errorf("%w: bucket %q is missing", onefold.ErrNotStore, rootName)
	}
	c.report.Format = parseFormat(get(metaFormat))
	if c.report.Format > FormatVersion {
		return nil, newerFormat(c.report.Format)
	}
	if err := found.check(); err != nil {
		return nil, asDamage(err)
	}
	h, err := readHead(get)
	if err != nil {
		return nil, err
	}
	id, key := identity(get)
	c.hashKey = key
	c.report.ID, c.report.Epoch, c.report.Last = id, h.epoch, h.position
	entries := map[string]uint64{}
	for i, name := range found.names {
		entries[string(name)] = found.counts[i]
	}
	c.report.Files[0].Entries = entries
	mark, _, err := readStoreMark(c.dir)
	if err == nil {
		err = mark.outdated(&h)
	}
	if err != nil {
		return nil, err
	}
	c.list, err = readRegistry(get)
	return c.list, err
}

// sealed checks the immutable files: segments first, so that the indexes can be compared with them.
func (c *checking) sealed(list registry) error {
	s := &Store{dir: c.dir}
	for i := range list {
		f := &list[i]
		name := filepath.Join(sealedDir, f.name())
		file, err := os.Open(f.path(c.dir))
		if err != nil {
			c.report.Files = append(c.report.Files, FileReport{Name: name, Problem: s.missing(f, err)})
			continue
		}
		found, err := c.file(name, file)
		_ = file.Close()
		if err != nil {
			return err
		}
		one := &c.report.Files[len(c.report.Files)-1]
		if found == nil || one.Problem != nil {
			continue
		}
		one.Entries = map[string]uint64{f.head.Kind.String(): f.head.Records}
		if f.head.Kind == sealed.KindRecords {
			one.Problem = c.segment(s, f)
		} else {
			one.Problem = c.index(s, f)
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// segmentSum stands for the pairs of hash and position of a segment, whatever their order.
type segmentSum struct {
	records uint64
	sum     uint64
}

func (s *segmentSum) add(hash, position uint64) {
	s.records++
	s.sum += siphash.Hash(hash, position, nil)
}

// segment reads all records of a segment.
func (c *checking) segment(s *Store, f *sealedFile) error {
	opened, err := s.openSegment(*f)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	sum := &segmentSum{}
	for at := f.head.First; at < f.head.End; {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		at, err = opened.From(at, func(p uint64, stored []byte) error {
			r, err := parseRecord(stored)
			if err != nil {
				return unreadable(err, "record %d", p)
			}
			hash := r.form.hash
			if r.form.raw != nil {
				hash = c.hashKey.hash(r.form.raw)
			}
			sum.add(hash, p)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if sum.records != f.head.Records {
		return fmt.Errorf("%w: it has %d records and should have %d", onefold.ErrDamaged, sum.records, f.head.Records)
	}
	c.sums[f.head.First] = sum
	return nil
}

// index reads all entries of an index and compares those of each segment with what the segment has.
func (c *checking) index(s *Store, f *sealedFile) error {
	opened, err := s.openIndex(*f)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	shelf := &shelf{}
	for i := range c.list {
		if c.list[i].head.Kind == sealed.KindRecords {
			shelf.segments = append(shelf.segments, &segmentFile{sealedFile: c.list[i]})
		}
	}
	sums := map[uint64]*segmentSum{}
	total := uint64(0)
	var entries []sealed.Entry
	for part := uint64(0); part < 1<<f.head.Bits; part++ {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if entries, err = opened.Entries(entries[:0], part, f.head.Bits); err != nil {
			return err
		}
		for _, e := range entries {
			total++
			if !opened.MayHave(e.Hash) {
				return fmt.Errorf("%w: its filter denies the record at %d", onefold.ErrDamaged, e.Position)
			}
			if owner := shelf.segment(e.Position); owner != nil {
				sum := sums[owner.head.First]
				if sum == nil {
					sum = &segmentSum{}
					sums[owner.head.First] = sum
				}
				sum.add(e.Hash, e.Position)
			}
		}
	}
	if total != f.head.Records {
		return fmt.Errorf("%w: it has %d entries and should have %d", onefold.ErrDamaged, total, f.head.Records)
	}
	return c.compare(f, shelf, sums)
}

// compare says which segment of the range of an index is not the one that the index describes.
func (c *checking) compare(f *sealedFile, shelf *shelf, sums map[uint64]*segmentSum) error {
	for _, segment := range shelf.segments {
		first := segment.head.First
		if !f.head.Covers(first) || c.sums[first] == nil {
			continue // of another index, or damaged itself
		}
		if sums[first] == nil || *sums[first] != *c.sums[first] {
			return fmt.Errorf("%w: it does not have the records of %s", onefold.ErrDamaged, segment.name())
		}
	}
	return nil
}
