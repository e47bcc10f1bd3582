package sealed

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/FastFilter/xorfilter"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

const (
	// shardHashes is how many hashes one shard of a filter has, about. Building one takes about 25 bytes of memory a
	// hash and some milliseconds, in which nobody can be let through.
	shardHashes = 32 << 10

	// leastShard and smallShard make the filters of small indexes alike, so that they share a bank: they are filled
	// up to a power of two.
	leastShard = 256
	smallShard = shardHashes / 2

	// shapeTries is how often a shard is built anew with other fillers if it did not come out as others do. One in
	// fifty does not, at the worst sizes.
	shapeTries = 8
)

// A filter tells of most hashes that are not in an index that they are not. It consists of binary fuse filters,
// shard i of the hashes whose highest bits are i. Each shard is filled up with hashes of nobody to a number that
// depends on the number of entries alone, so that indexes of about one size have filters of one shape, which can be
// asked together; see Bank.

// filled is to how many hashes each of so many shards is filled up: four standard deviations beyond the mean, which
// nearly none exceeds.
func filled(records uint64, shardBits uint8) int {
	mean := float64(records) / float64(uint64(1)<<shardBits)
	n := int(mean + 4*math.Sqrt(mean))
	if n >= smallShard {
		return n
	}
	return max(leastShard, 1<<bits.Len(uint(n)))
}

// filterBuilder builds the shards of a filter from hashes that come in ascending order.
type filterBuilder struct {
	bits    uint8
	fill    int
	shard   uint64
	hashes  []uint64
	builder xorfilter.BinaryFuseBuilder
	usual   shape // that of most
	done    []pair
}

func (b *filterBuilder) add(hash uint64) error {
	shard := hash >> (64 - b.bits)
	for b.shard < shard {
		if err := b.finishShard(); err != nil {
			return err
		}
	}
	if n := len(b.hashes); n == 0 || b.hashes[n-1] != hash {
		b.hashes = append(b.hashes, hash)
	}
	return nil
}

// finishShard builds the present shard and goes on to the next.
func (b *filterBuilder) finishShard() error {
	built, err := b.build()
	if err != nil {
		return fmt.Errorf("build a filter of %d hashes: %w", len(b.hashes), err)
	}
	var value bytes.Buffer
	value.WriteByte(headV1)
	if err := built.Save(&value); err != nil {
		return err
	}
	b.done = append(b.done, pair{shardKey(b.shard), value.Bytes()})
	b.hashes = b.hashes[:0]
	b.shard++
	runtime.Gosched()
	return nil
}

// build tries until the shard has the shape of the others; if that does not come about it does without. The first
// shard tries until a shape comes twice: that is the usual one.
func (b *filterBuilder) build() (built xorfilter.BinaryFuse[uint8], err error) {
	own := len(b.hashes)
	filler := rand.NewPCG(b.shard, 0) // hashes of nobody
	var seen []shape
	for range shapeTries {
		for b.hashes = b.hashes[:own]; len(b.hashes) < b.fill; {
			b.hashes = append(b.hashes, filler.Uint64())
		}
		if built, err = xorfilter.BuildBinaryFuse[uint8](&b.builder, b.hashes); err != nil {
			return built, err
		}
		s := shapeOf(&built)
		if b.shard == 0 && slices.Contains(seen, s) {
			b.usual = s
		}
		if s == b.usual {
			break
		}
		seen = append(seen, s)
	}
	return built, nil
}

// finish returns the shards as they are stored.
func (b *filterBuilder) finish() ([]pair, error) {
	for b.shard < 1<<b.bits {
		if err := b.finishShard(); err != nil {
			return nil, err
		}
	}
	return b.done, nil
}

func shardKey(shard uint64) []byte { return binary.BigEndian.AppendUint32(nil, uint32(shard)) }

// readFilter reads the filter into memory, all of it, as a bank of its own: a bit that turns over on the disk later
// cannot hide a hash then.
func readFilter(tx *bolt.Tx, shardBits uint8) (*Bank, error) {
	b := tx.Bucket(filterBucket)
	if b == nil {
		return nil, fmt.Errorf("bucket %q is missing", filterBucket)
	}
	bank := &Bank{bits: shardBits, width: 1, shards: make([]bankShard, 1<<shardBits)}
	for i := range bank.shards {
		runtime.Gosched() // a large filter takes some time
		key := shardKey(uint64(i))
		value, err := sum.Cut(key, b.Get(key))
		if err != nil {
			return nil, fmt.Errorf("shard %d of the filter: %w", i, err)
		}
		if len(value) == 0 || value[0] != headV1 {
			return nil, fmt.Errorf("shard %d of the filter: %w", i, errFormat)
		}
		one, err := xorfilter.LoadBinaryFuse[uint8](bytes.NewReader(value[1:]))
		if err != nil {
			return nil, fmt.Errorf("shard %d of the filter: %w", i, err)
		}
		shard := &bank.shards[i]
		if shard.shape = shapeOf(one); int(shard.cells()) != len(one.Fingerprints) {
			return nil, fmt.Errorf("shard %d of the filter: %w", i, errFormat)
		}
		shard.prints = append(one.Fingerprints, make([]byte, probeBytes)...)
	}
	return bank, nil
}
