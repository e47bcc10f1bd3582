package sealed

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/FastFilter/xorfilter"
)

// BankWidth is how many indexes one bank can have.
const BankWidth = 8

// probeBytes are read at each cell, whatever the width of the bank, so that many follow the last one.
const probeBytes = 8

// shape is what says where in a binary fuse filter the three cells of a hash are.
type shape struct {
	seed          uint64
	segmentLength uint32
	segmentCount  uint32 // without the last two
}

func shapeOf(f *xorfilter.BinaryFuse[uint8]) shape {
	return shape{f.Seed, f.SegmentLength, f.SegmentCount}
}

// cells is how many cells a filter of this shape has.
func (s *shape) cells() uint32 { return (s.segmentCount + 2) * s.segmentLength }

// Bank holds the filters of some indexes whose filters have one shape, and asks all of them at once: the
// fingerprints of a cell stand side by side, so that a hash that is in none of them costs three looks at memory
// for all instead of three for each. It never changes and is for concurrent use.
type Bank struct {
	bits   uint8 // shards are numbered by so many of the highest bits of a hash
	width  int   // filters
	shards []bankShard
}

type bankShard struct {
	shape
	prints []byte // cell by cell, width fingerprints each
}

const lowBytes = 0x0101010101010101

// Probe returns a bit for each filter that may have the hash: all that have it, and 1 of 256 others.
//
// The places of a hash are those of the binary fuse filters of the library, which reads and writes them; a test
// compares the answers.
func (b *Bank) Probe(hash uint64) (hits uint8) {
	s := &b.shards[hash>>(64-b.bits)]
	h := mix(hash + s.seed)
	first, _ := bits.Mul64(h, uint64(s.segmentCount)*uint64(s.segmentLength))
	mask := s.segmentLength - 1
	h0 := uint32(first)
	h1 := (h0 + s.segmentLength) ^ uint32(h>>18)&mask
	h2 := (h0 + 2*s.segmentLength) ^ uint32(h)&mask
	sum := s.at(h0, b.width) ^ s.at(h1, b.width) ^ s.at(h2, b.width) ^ uint64(uint8(h^h>>32))*lowBytes
	if b.width < BankWidth {
		sum |= ^uint64(0) << (8 * b.width) // bytes of other cells
	}
	const high = 0x80 * lowBytes
	zero := ^((sum&^high + ^uint64(high)) | sum) & high // the highest bit of each byte that is zero
	if zero == 0 {
		return 0
	}
	for ; zero != 0; zero &= zero - 1 {
		hits |= 1 << (bits.TrailingZeros64(zero) / 8)
	}
	return hits
}

// at reads the fingerprints of a cell, and some of those behind it.
func (s *bankShard) at(cell uint32, width int) uint64 {
	return binary.LittleEndian.Uint64(s.prints[int(cell)*width:])
}

// mix is the finalizer of MurmurHash3 (Austin Appleby), with which the filters of the library spread hashes.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Bytes is how much memory the filters take.
func (b *Bank) Bytes() (n int64) {
	for i := range b.shards {
		n += int64(len(b.shards[i].prints))
	}
	return n
}

// Plane is one filter of a bank.
type Plane struct {
	Bank *Bank
	Slot int
}

// Fits reports whether two filters have one shape, so that they can stand in one bank.
func (p Plane) Fits(o Plane) bool {
	return p.Bank.bits == o.Bank.bits && slices.EqualFunc(p.Bank.shards, o.Bank.shards, func(a, b bankShard) bool { return a.shape == b.shape })
}

// NewBank makes one bank of filters that fit each other. between is called from time to time; its error ends
// the work.
func NewBank(planes []Plane, between func() error) (*Bank, error) {
	model := planes[0].Bank
	b := &Bank{bits: model.bits, width: len(planes), shards: make([]bankShard, len(model.shards))}
	for i := range b.shards {
		if err := between(); err != nil {
			return nil, err
		}
		shard := &b.shards[i]
		shard.shape = model.shards[i].shape
		cells := int(shard.cells())
		shard.prints = make([]byte, cells*b.width+probeBytes)
		for slot, p := range planes {
			from, width := p.Bank.shards[i].prints, p.Bank.width
			for cell := range cells {
				shard.prints[cell*b.width+slot] = from[cell*width+p.Slot]
			}
		}
	}
	return b, nil
}
