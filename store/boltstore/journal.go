package boltstore

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
)

// pieceRecords is how many records a piece of the journal takes. It is so small that dropping one costs about
// what writing a group costs, since that is done between groups.
const pieceRecords = 8 << 10

// journal is the bucket of the records that are not sealed yet, in pieces: buckets of their own, each named by
// a position that none of its records is before. A record stands in the last piece that begins at or before
// its position, so new ones go into the last. Pieces are dropped whole once their records are in a segment file.
type journal struct {
	bucket
	pieces []openPiece // in order; see list
	listed bool
}

// openPiece is a piece in a transaction.
type openPiece struct {
	first uint64
	raw   *bolt.Bucket // nil: not looked up yet
}

// list finds the pieces, once in a transaction. Errors: ErrDamaged.
func (j *journal) list() error {
	if j.listed {
		return nil
	}
	cursor := j.raw.Cursor()
	for key, value := cursor.First(); key != nil; key, value = cursor.Next() {
		first, err := parsePosition(key)
		if err != nil || value != nil {
			return fmt.Errorf("%w: bucket %q, %s: not a piece of the journal", onefold.ErrDamaged, j.name, shown(j.name, key))
		}
		j.pieces = append(j.pieces, openPiece{first: first})
	}
	j.listed = true
	return nil
}

// piece returns the bucket in which a position is, or nil if all begin behind it. Errors: ErrDamaged.
func (j *journal) piece(at uint64) (*bucket, error) {
	if err := j.list(); err != nil {
		return nil, err
	}
	i := sort.Search(len(j.pieces), func(i int) bool { return j.pieces[i].first > at }) - 1
	if i < 0 {
		return nil, nil
	}
	p := &j.pieces[i]
	if p.raw == nil {
		if p.raw = j.raw.Bucket(position(p.first)); p.raw == nil {
			return nil, fmt.Errorf("%w: piece %d of the journal is missing", onefold.ErrDamaged, p.first)
		}
		p.raw.FillPercent = 1 // positions only grow, so pages are never split in the middle
	}
	return &bucket{raw: p.raw, name: j.name, entries: j.entries}, nil
}

// get returns the record at a position in memory of the file, or nil if there is none. Errors: ErrDamaged.
func (j *journal) get(at uint64) ([]byte, error) {
	b, err := j.piece(at)
	if b == nil || err != nil {
		return nil, err
	}
	return b.get(position(at))
}

// add appends a record. See bucket.add.
func (j *journal) add(at uint64, record []byte) error {
	b, err := j.piece(at)
	if b == nil || err != nil {
		return errors.Join(err, missing(j.name))
	}
	return b.add(position(at), record)
}

// put writes a record anew.
func (j *journal) put(at uint64, record []byte) error {
	b, err := j.piece(at)
	if b == nil || err != nil {
		return errors.Join(err, missing(j.name))
	}
	return b.put(position(at), record)
}

// remove deletes a record, if it is there.
func (j *journal) remove(at uint64) error {
	b, err := j.piece(at)
	if b == nil || err != nil {
		return err
	}
	return b.remove(position(at))
}

// each visits all records in order.
func (j *journal) each(visit func(key, record []byte) error) error {
	if err := j.list(); err != nil {
		return err
	}
	for i := range j.pieces {
		b, err := j.piece(j.pieces[i].first)
		if err != nil {
			return err
		}
		if err := b.each(visit); err != nil {
			return err
		}
	}
	return nil
}

// cut begins a new piece.
func (j *journal) cut(first uint64) error {
	if err := j.list(); err != nil {
		return err
	}
	raw, err := j.raw.CreateBucket(position(first))
	if err != nil {
		return err
	}
	raw.FillPercent = 1
	j.pieces = append(j.pieces, openPiece{first, raw})
	return nil
}

// drop removes a piece with its records, or, if it has more than limit, so many of them. It reports whether the
// piece is gone. One of a store of format 1 has all its records.
func (j *journal) drop(first uint64, limit int) (gone bool, err error) {
	b, err := j.piece(first)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(j.pieces, func(p openPiece) bool { return p.first == first })
	if b == nil || i < 0 {
		return true, nil
	}
	var keys [][]byte
	cursor := b.cursor()
	key, _ := cursor.First()
	for ; key != nil && len(keys) < limit; key, _ = cursor.Next() {
		keys = append(keys, key)
	}
	if key == nil {
		*j.entries -= uint64(len(keys))
		j.pieces = slices.Delete(slices.Clone(j.pieces), i, i+1)
		return true, j.raw.DeleteBucket(position(first))
	}
	for i, key := range keys {
		keys[i] = slices.Clone(key) // deletions move what is in the file's pages
	}
	for _, key := range keys {
		if err := b.remove(key); err != nil {
			return false, err
		}
	}
	return false, nil
}
