package sealed

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold/store/boltstore/internal/guard"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// Entry says that a record whose key has this hash is at this position. Several may have one hash.
type Entry struct{ Hash, Position uint64 }

// Order is the order of entries in an index: by hash, and of equal ones the newest first.
func (e Entry) Order(o Entry) int {
	if c := cmp.Compare(e.Hash, o.Hash); c != 0 {
		return c
	}
	return cmp.Compare(o.Position, e.Position)
}

// Sort returns the entries in their order. It calls between from time to time.
func Sort(entries []Entry, between func() error) ([]Entry, error) {
	const parts, shift = 256, 64 - 8
	var ends [parts]int
	for _, e := range entries {
		ends[e.Hash>>shift]++
	}
	for i := 1; i < parts; i++ {
		ends[i] += ends[i-1]
	}
	starts := ends
	sorted := make([]Entry, len(entries))
	for _, e := range entries {
		starts[e.Hash>>shift]--
		sorted[starts[e.Hash>>shift]] = e
	}
	for i := range parts {
		if err := between(); err != nil {
			return nil, err
		}
		slices.SortFunc(sorted[starts[i]:ends[i]], Entry.Order)
	}
	return sorted, nil
}

// A block of an index, under its number in 4 bytes, which is the highest bits of the hashes in it:
//
//	1 | entries, each hash 8, position 8 | checksum 4
//
// All blocks are there, empty ones too: one that is missing is damage. A run of equal hashes never crosses a block.

const (
	entryLen = 16
	// blockEntries is how many entries a block has, about: few enough to be read as a whole.
	blockEntries = 48
	// maxBits bounds the number of blocks and of shards.
	maxBits = 32
)

// bitsFor is how many bits number the blocks if each shall hold about so many of n entries.
func bitsFor(n uint64, each int) uint8 {
	return uint8(min(bits.Len64(n/uint64(each)), maxBits))
}

// IndexWriter writes an index file.
type IndexWriter struct {
	w      *writer
	head   Head
	number uint64 // of the block
	block  []byte
	last   Entry
	filter filterBuilder
}

// CreateIndex begins an index file for the range of h; h.Records says how many entries will come, at most.
func CreateIndex(path string, h Head) (*IndexWriter, error) {
	w, err := create(path)
	if err != nil {
		return nil, err
	}
	records := h.Records
	h.Kind, h.Bits, h.Shards = KindIndex, bitsFor(h.Records, blockEntries), bitsFor(h.Records, shardHashes)
	h.Records, h.Expires, h.Written = 0, 0, 0
	x := &IndexWriter{w: w, head: h, filter: filterBuilder{bits: h.Shards, fill: filled(records, h.Shards)}}
	x.block = append(x.block, headV1)
	return x, nil
}

// Add adds an entry. Entries come in their [Entry.Order].
func (w *IndexWriter) Add(e Entry) error {
	if w.head.Records > 0 && w.last.Order(e) >= 0 {
		return fmt.Errorf("entry %x at %d after %x at %d", e.Hash, e.Position, w.last.Hash, w.last.Position)
	}
	for number := e.Hash >> (64 - w.head.Bits); w.number < number; {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.block = binary.BigEndian.AppendUint64(w.block, e.Hash)
	w.block = binary.BigEndian.AppendUint64(w.block, e.Position)
	w.last = e
	w.head.Records++
	return w.filter.add(e.Hash)
}

// flush writes the block and goes on to the next.
func (w *IndexWriter) flush() error {
	value := append(make([]byte, 0, len(w.block)+sum.Len), w.block...)
	err := w.w.put(blockBucket, shardKey(w.number), value)
	w.number++
	w.block = w.block[:1]
	return err
}

// Finish is as that of [RecordsWriter].
func (w *IndexWriter) Finish() (Head, int64, error) {
	size, err := w.finish()
	return w.head, size, err
}

func (w *IndexWriter) finish() (int64, error) {
	for w.number < 1<<w.head.Bits {
		if err := w.flush(); err != nil {
			w.w.abort()
			return 0, err
		}
	}
	shards, err := w.filter.finish()
	for i := 0; err == nil && i < len(shards); i++ {
		err = w.w.put(filterBucket, shards[i].key, shards[i].value)
	}
	if err != nil {
		w.w.abort()
		return 0, err
	}
	return w.w.finish(&w.head)
}

// Abort gives the file up.
func (w *IndexWriter) Abort() { w.w.abort() }

// Index is an open index file.
type Index struct {
	*file
	bank *Bank
}

// OpenIndex opens an index file and reads its filter; admit judges its pages before they are used. Errors:
// ErrDamaged, and fs.ErrNotExist.
func OpenIndex(path string, admit func(*os.File) error) (*Index, error) {
	f, err := openFile(path, admit)
	if err != nil {
		return nil, err
	}
	x := &Index{file: f}
	if f.head.Kind != KindIndex {
		err = fmt.Errorf("it is a %v", f.head.Kind)
	} else {
		err = guard.Run("read "+path, func() error {
			return f.db.View(func(tx *bolt.Tx) (err error) {
				x.bank, err = readFilter(tx, f.head.Shards)
				return err
			})
		})
	}
	if err != nil {
		return nil, errors.Join(f.damaged(err), f.Close())
	}
	return x, nil
}

// TakeFilter returns the index's filter, which it then has no more: it is asked through a bank.
func (x *Index) TakeFilter() Plane {
	p := Plane{Bank: x.bank}
	x.bank = nil
	return p
}

// MayHave reports whether the hash may be in the index, as long as it has its filter.
func (x *Index) MayHave(hash uint64) bool { return x.bank.Probe(hash) != 0 }

// Find appends the positions of the entries with this hash, newest first. Errors: ErrDamaged.
func (x *Index) Find(positions []uint64, hash uint64) ([]uint64, error) {
	err := x.read(func(r *reader) error {
		block, err := r.indexBlock(hash >> (64 - x.head.Bits))
		if err != nil {
			return err
		}
		n := len(block) / entryLen
		low, high := 0, n
		for low < high {
			if m := (low + high) / 2; binary.BigEndian.Uint64(block[m*entryLen:]) < hash {
				low = m + 1
			} else {
				high = m
			}
		}
		for ; low < n && binary.BigEndian.Uint64(block[low*entryLen:]) == hash; low++ {
			positions = append(positions, binary.BigEndian.Uint64(block[low*entryLen+8:]))
		}
		return nil
	})
	return positions, err
}

// indexBlock returns the entries of a block as they are stored.
func (r *reader) indexBlock(number uint64) ([]byte, error) {
	key := shardKey(number)
	value, err := sum.Cut(key, r.blocks.Get(key))
	if err != nil {
		return nil, fmt.Errorf("block %d: %w", number, err)
	}
	if len(value)%entryLen != 1 || value[0] != headV1 {
		return nil, fmt.Errorf("block %d: %w", number, errFormat)
	}
	return value[1:], nil
}

// Entries appends the entries of hashes whose highest bits are part, of 1<<bits parts. Errors: ErrDamaged.
func (x *Index) Entries(entries []Entry, part uint64, bits uint8) ([]Entry, error) {
	first, end := part, part+1 // blocks
	if bits <= x.head.Bits {
		each := x.head.Bits - bits
		first, end = part<<each, (part+1)<<each
	} else {
		first = part >> (bits - x.head.Bits)
		end = first + 1
	}
	err := x.read(func(r *reader) error {
		for number := first; number < end; number++ {
			block, err := r.indexBlock(number)
			if err != nil {
				return err
			}
			for ; len(block) > 0; block = block[entryLen:] {
				e := Entry{binary.BigEndian.Uint64(block), binary.BigEndian.Uint64(block[8:])}
				if e.Hash>>(64-bits) == part { // a block may be of several parts
					entries = append(entries, e)
				}
			}
		}
		return nil
	})
	return entries, err
}

// mergeEntries is how many entries are merged in one step, about.
const mergeEntries = 512

// Merge adds the entries of several indexes to w, without those whose position is not to be kept. between is
// called from time to time; its error ends the merge. Errors: ErrDamaged, and those of writing.
func Merge(w *IndexWriter, from []*Index, keep func(position uint64) bool, between func() error) error {
	all := uint64(0)
	for _, x := range from {
		all += x.head.Records
	}
	steps := bitsFor(all, mergeEntries)
	var entries []Entry
	for part := uint64(0); part < 1<<steps; part++ {
		if err := between(); err != nil {
			return err
		}
		entries = entries[:0]
		for _, x := range from {
			var err error
			if entries, err = x.Entries(entries, part, steps); err != nil {
				return err
			}
		}
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return !keep(e.Position) })
		slices.SortFunc(entries, Entry.Order)
		for _, e := range entries {
			if err := w.Add(e); err != nil {
				return err
			}
		}
	}
	return nil
}
