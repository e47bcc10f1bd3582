package boltstore

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// bucket is one of our buckets in one transaction. Every value in it is read and written here, where
// checksums are made and looked at and entries are counted.
type bucket struct {
	raw     *bolt.Bucket
	name    []byte
	entries *uint64 // its count after the transaction; nil in one that only reads
}

// check returns the value without its checksum. Errors: ErrDamaged.
func (b *bucket) check(key, stored []byte) ([]byte, error) {
	value, err := checked(key, stored)
	if err != nil {
		return nil, fmt.Errorf("%w: bucket %q, %s: %w", onefold.ErrDamaged, b.name, shown(b.name, key), err)
	}
	return value, nil
}

// get returns the value of key in memory of the file, or nil if there is none. Errors: ErrDamaged.
func (b *bucket) get(key []byte) ([]byte, error) {
	stored := b.raw.Get(key)
	if stored == nil {
		return nil, nil
	}
	return b.check(key, stored)
}

// add writes a value under a key that is known to be new. Value must stay as it is until the end of the
// transaction; it is not copied if it has room for a checksum.
func (b *bucket) add(key, value []byte) error {
	*b.entries++
	return b.raw.Put(key, sum.Append(key, value))
}

// put writes a value under a key that may have one. See add.
func (b *bucket) put(key, value []byte) error {
	if b.raw.Get(key) == nil {
		*b.entries++
	}
	return b.raw.Put(key, sum.Append(key, value))
}

// remove deletes the entry of key, if there is one.
func (b *bucket) remove(key []byte) error {
	if b.raw.Get(key) == nil {
		return nil
	}
	*b.entries--
	return b.raw.Delete(key)
}

// each visits all entries.
func (b *bucket) each(visit func(key, value []byte) error) error {
	return b.raw.ForEach(func(key, stored []byte) error {
		value, err := b.check(key, stored)
		if err != nil {
			return err
		}
		return visit(key, value)
	})
}

// cursor walks over the stored values; what it shows is to be given to check.
func (b *bucket) cursor() *bolt.Cursor { return b.raw.Cursor() }
