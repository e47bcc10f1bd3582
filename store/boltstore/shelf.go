package boltstore

import (
	"cmp"
	"errors"
	"math/bits"
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
	banks    []bank         // their filters
	closed   bool           // the last one, of a store that is closed: nothing is known
	number   uint64         // grows from one shelf to the next
	users    int            // guarded by the lock of shelves; the present shelf has one user more
}

// bank holds the filters of some indexes.
type bank struct {
	*sealed.Bank
	members []*indexFile
}

// mayHave reports whether the outcome of a key with this hash may be in a segment. It reads memory only.
func (s *shelf) mayHave(hash uint64) bool {
	for i := range s.banks {
		if s.banks[i].Probe(hash) != 0 {
			return true
		}
	}
	return false
}

// candidates returns the indexes that may have the hash, newest first.
func (s *shelf) candidates(hash uint64) (list []*indexFile) {
	for i := range s.banks {
		for hits := s.banks[i].Probe(hash); hits != 0; hits &= hits - 1 {
			list = append(list, s.banks[i].members[bits.TrailingZeros8(hits)])
		}
	}
	slices.SortFunc(list, newestFirst)
	return list
}

func newestFirst(a, b *indexFile) int { return cmp.Compare(b.head.First, a.head.First) }

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
	addSegments  []*segmentFile
	addIndexes   []*indexFile
	dropSegments []*segmentFile
	dropIndexes  []*indexFile
}

// after returns the shelf with the change. between is called from time to time; its error ends the work.
func (s *shelf) after(c *change, between func() error) (*shelf, error) {
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
	next.segments = append(next.segments, c.addSegments...)
	slices.SortFunc(next.segments, func(a, b *segmentFile) int { return cmp.Compare(a.head.First, b.head.First) })
	next.indexes = append(next.indexes, c.addIndexes...)
	slices.SortFunc(next.indexes, newestFirst)
	var err error
	next.banks, err = inBanks(next.indexes, s.banks, between)
	return next, err
}

// inBanks puts the filters of the indexes into banks. Those of indexes that were there before are in the old banks.
func inBanks(indexes []*indexFile, old []bank, between func() error) ([]bank, error) {
	planes := map[*indexFile]sealed.Plane{}
	for _, b := range old {
		for slot, x := range b.members {
			planes[x] = sealed.Plane{Bank: b.Bank, Slot: slot}
		}
	}
	var banks []bank
	for _, x := range indexes {
		if _, known := planes[x]; !known {
			planes[x] = x.TakeFilter()
		}
		fits := func(b bank) bool { return len(b.members) < sealed.BankWidth && planes[b.members[0]].Fits(planes[x]) }
		if i := slices.IndexFunc(banks, fits); i >= 0 {
			banks[i].members = append(banks[i].members, x)
		} else {
			banks = append(banks, bank{members: []*indexFile{x}})
		}
	}
	for i := range banks {
		b := &banks[i]
		same := slices.IndexFunc(old, func(o bank) bool { return slices.Equal(o.members, b.members) })
		if same >= 0 {
			b.Bank = old[same].Bank
			continue
		}
		list := make([]sealed.Plane, len(b.members))
		for slot, x := range b.members {
			list[slot] = planes[x]
		}
		var err error
		if b.Bank, err = sealed.NewBank(list, between); err != nil {
			return nil, err
		}
	}
	return banks, nil
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

// replace puts next in place of the present shelf. It returns what closes the files that nobody uses any more.
func (s *shelves) replace(next *shelf) (unused []func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range next.segments {
		f.holders++
	}
	for _, f := range next.indexes {
		f.holders++
	}
	next.users = 1
	if old := s.present.Swap(next); old != nil {
		old.users--
		unused = s.unused(old)
	}
	return unused
}

// held reports whether a file that is not on the present shelf is on one that is still used.
func (s *shelves) held(holders *int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *holders > 0
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
