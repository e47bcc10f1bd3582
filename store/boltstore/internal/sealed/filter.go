package sealed

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"

	"github.com/FastFilter/xorfilter"
	bolt "go.etcd.io/bbolt"
)

// shardHashes is how many hashes one shard of a filter has, about. Building one takes about 25 bytes of memory a
// hash and some milliseconds, in which nobody can be let through.
const shardHashes = 64 << 10

// filter tells of most hashes that are not in an index that they are not. Shard i is of the hashes whose
// highest bits are i.
type filter struct {
	shift  uint
	shards []*xorfilter.BinaryFuse[uint8] // nil: no hash
	size   int64
}

// mayHave reports whether the hash may be in the index: it is for certain if it is there, and for 1 of 256 others.
func (f *filter) mayHave(hash uint64) bool {
	s := f.shards[hash>>f.shift]
	return s != nil && s.Contains(hash)
}

// filterBuilder builds the shards of a filter from hashes that come in ascending order.
type filterBuilder struct {
	bits    uint8
	shard   uint64
	hashes  []uint64
	builder xorfilter.BinaryFuseBuilder
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
	var value bytes.Buffer
	value.WriteByte(headV1)
	if len(b.hashes) > 0 {
		built, err := xorfilter.BuildBinaryFuse[uint8](&b.builder, b.hashes)
		if err != nil {
			return fmt.Errorf("build a filter of %d hashes: %w", len(b.hashes), err)
		}
		if err := built.Save(&value); err != nil {
			return err
		}
	}
	b.done = append(b.done, pair{shardKey(b.shard), value.Bytes()})
	b.hashes = b.hashes[:0]
	b.shard++
	runtime.Gosched()
	return nil
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

// readFilter reads the filter into memory, all of it: a bit that turns over on the disk later cannot hide
// a hash then.
func readFilter(tx *bolt.Tx, bits uint8) (*filter, error) {
	b := tx.Bucket(filterBucket)
	if b == nil {
		return nil, fmt.Errorf("bucket %q is missing", filterBucket)
	}
	f := &filter{shift: 64 - uint(bits), shards: make([]*xorfilter.BinaryFuse[uint8], 1<<bits)}
	for i := range f.shards {
		runtime.Gosched() // a large filter takes some time
		key := shardKey(uint64(i))
		value, err := openValue(key, b.Get(key))
		if err != nil {
			return nil, fmt.Errorf("shard %d of the filter: %w", i, err)
		}
		if len(value) == 0 || value[0] != headV1 {
			return nil, fmt.Errorf("shard %d of the filter: %w", i, errFormat)
		}
		if len(value) == 1 {
			continue
		}
		if f.shards[i], err = xorfilter.LoadBinaryFuse[uint8](bytes.NewReader(value[1:])); err != nil {
			return nil, fmt.Errorf("shard %d of the filter: %w", i, err)
		}
		f.size += int64(len(f.shards[i].Fingerprints))
	}
	return f, nil
}
