package boltstore

import (
	"errors"
	"os"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/onefold-go/onefold/store/boltstore/internal/sealed"
)

// segmentFile and indexFile are open immutable files. Their holders are counted under the lock of shelves.
type segmentFile struct {
	sealedFile
	*sealed.Records
	holders int
}

type indexFile struct {
	sealedFile
	*sealed.Index
	holders int
}

// shelf is the set of immutable files that count at one moment. It is never changed; the next one takes its
// place. A file is closed when no shelf that holds it is in use any more.
type shelf struct {
	segments []*segmentFile // by position
	indexes  []*indexFile   // newest first; their ranges do not overlap
	number   uint64         // grows from one shelf to the next
	users    int            // guarded by the lock of shelves; the present shelf has one user more
}

// mayHave reports whether the outcome of a key with this hash may be in a segment. It reads memory only.
func (s *shelf) mayHave(hash uint64) bool {
	for _, x := range s.indexes {
		if x.MayHave(hash) {
			return true
		}
	}
	return false
}

// segment returns the segment of a position, or nil if it has ended.
func (s *shelf) segment(at uint64) *segmentFile {
	i := sort.Search(len(s.segments), func(i int) bool { return s.segments[i].head.End > at })
	if i == len(s.segments) || !s.segments[i].head.Covers(at) {
		return nil
	}
	return s.segments[i]
}

// registry is the list of the files as it is stored.
func (s *shelf) registry() registry {
	list := make(registry, 0, len(s.segments)+len(s.indexes))
	for _, f := range s.segments {
		list = append(list, f.sealedFile)
	}
	for _, f := range slices.Backward(s.indexes) {
		list = append(list, f.sealedFile)
	}
	return list
}

// records is how many records all segments have.
func (s *shelf) records() (n uint64) {
	for _, f := range s.segments {
		n += f.head.Records
	}
	return n
}

// change is the difference between one shelf and the next.
type change struct {
	addSegment   *segmentFile
	addIndex     *indexFile
	dropSegments []*segmentFile
	dropIndexes  []*indexFile
}

// after returns the shelf with the change.
func (s *shelf) after(c *change) *shelf {
	next := &shelf{number: s.number + 1}
	for _, f := range s.segments {
		if !slices.Contains(c.dropSegments, f) {
			next.segments = append(next.segments, f)
		}
	}
	for _, f := range s.indexes {
		if !slices.Contains(c.dropIndexes, f) {
			next.indexes = append(next.indexes, f)
		}
	}
	if f := c.addSegment; f != nil {
		next.segments = append(next.segments, f)
		slices.SortFunc(next.segments, func(a, b *segmentFile) int { return compare(a.head.First, b.head.First) })
	}
	if f := c.addIndex; f != nil {
		next.indexes = append(next.indexes, f)
		slices.SortFunc(next.indexes, func(a, b *indexFile) int { return compare(b.head.First, a.head.First) })
	}
	return next
}

// shelves hands out the present shelf and closes files that nobody uses any more.
type shelves struct {
	mu      sync.Mutex
	present atomic.Pointer[shelf] // whoever only reads memory takes it from here
}

// use returns the present shelf, whose files stay open until it is given back to done.
func (s *shelves) use() *shelf {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.present.Load()
	now.users++
	return now
}

// done ends a use.
func (s *shelves) done(used *shelf) {
	s.mu.Lock()
	used.users--
	unused := s.unused(used)
	s.mu.Unlock()
	_ = closeAll(unused) // the file is not written to; there is nothing to lose
}

// replace puts next in place of the present shelf.
func (s *shelves) replace(next *shelf) {
	s.mu.Lock()
	for _, f := range next.segments {
		f.holders++
	}
	for _, f := range next.indexes {
		f.holders++
	}
	next.users = 1
	old := s.present.Swap(next)
	var unused []func() error
	if old != nil {
		old.users--
		unused = s.unused(old)
	}
	s.mu.Unlock()
	_ = closeAll(unused)
}

// unused returns what closes the files that only this shelf held, if it is not used any more.
func (s *shelves) unused(old *shelf) (list []func() error) {
	if old.users > 0 {
		return nil
	}
	for _, f := range old.segments {
		if f.holders--; f.holders == 0 {
			list = append(list, f.Close)
		}
	}
	for _, f := range old.indexes {
		if f.holders--; f.holders == 0 {
			list = append(list, f.Close)
		}
	}
	return list
}

func closeAll(list []func() error) error {
	errs := make([]error, len(list))
	for i, f := range list {
		errs[i] = f()
	}
	return errors.Join(errs...)
}

// removeFiles unlinks files. Who reads one that is open goes on reading it.
func removeFiles(dir string, files []sealedFile) error {
	errs := make([]error, len(files))
	for i := range files {
		if err := os.Remove(files[i].path(dir)); !errors.Is(err, os.ErrNotExist) {
			errs[i] = err
		}
	}
	return errors.Join(errs...)
}
