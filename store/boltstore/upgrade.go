package boltstore

import (
	"encoding/binary"

	bolt "go.etcd.io/bbolt"
)

// upgrade turns a store of format 1 into one of the present format: it adds the bucket of what needs a person,
// with what the store has of it, and the tally, which the survey has counted. Values stay as they are until they
// are written again. b are the buckets of tx.
func (s *Store) upgrade(tx *bolt.Tx, b *buckets) error {
	s.head.tally = s.counts
	for _, name := range [][]byte{attentionName, erasedName} {
		if _, err := tx.Bucket(rootName).CreateBucket(name); err != nil {
			return err
		}
	}
	err := putRegistry(tx.Bucket(rootName).Bucket(metaName), nil)
	if err != nil {
		return err
	}
	if *b, err = bucketsOf(tx); err != nil {
		return err
	}
	b.countIn(&s.head.tally)
	err = b.journal.each(func(key, value []byte) error {
		r, err := parseRecord(value)
		if err != nil || !needsPerson(value) || r.flags&recordErased != 0 {
			return err
		}
		if err := s.loadAttention(b, key, value); err != nil {
			return err
		}
		return b.attention.add(key, r.append(make([]byte, 0, r.size())))
	})
	if err != nil {
		return err
	}
	for _, v := range []struct {
		key    []byte
		format uint32
	}{{metaSince, formatOf(b.meta)}, {metaFormat, FormatVersion}} {
		if err := b.meta.Put(v.key, binary.BigEndian.AppendUint32(nil, v.format)); err != nil {
			return err
		}
	}
	return putConstantsSum(b.meta)
}
