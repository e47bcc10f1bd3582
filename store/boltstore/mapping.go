package boltstore

import (
	"os"

	bolt "go.etcd.io/bbolt"
)

// mapping knows how much of the file is mapped, from below: bbolt does not tell. It belongs to the writer.
type mapping struct {
	known    int64
	pageSize int64
	largest  int64 // bytes of the largest value in the file, at least
}

// What a group may add to the file at most, beside twice its bytes: for each change the pages on the way
// from the root to it, a neighbour and a split; and something for the fixed buckets. bbolt writes a page
// anew with all that stands in it, and up to four values may stand in one page however large they are, and as
// many in a neighbour that is merged with it.
const (
	pagesPerPut   = 10
	valuesPerPut  = 8
	bytesPerGroup = 4 << 20
)

func newMapping(db *bolt.DB, initial, largest int) (mapping, error) {
	m := mapping{pageSize: int64(db.Info().PageSize), largest: int64(largest)}
	info, err := os.Stat(db.Path())
	if err != nil {
		return m, err
	}
	m.known = m.round(max(int64(initial), info.Size()))
	return m, nil
}

// bound is how much the group may add at most to a file that reaches up to end.
func (m *mapping) bound(g *group, end int64) int64 {
	puts := int64(g.load.puts + len(g.history))
	m.largest = max(m.largest, int64(g.load.largest))
	moved := int64(0)
	if m.largest > m.pageSize/4 {
		moved = min(puts*valuesPerPut*m.largest, end) // nothing is written anew twice
	}
	return 2*int64(g.load.bytes) + moved + puts*pagesPerPut*m.pageSize + bytesPerGroup
}

// grown notes how far the file reaches in tx. The mapped size is always one that bbolt rounds to and at
// least that, so it is at least the next such size.
func (m *mapping) grown(tx *bolt.Tx) { m.known = max(m.known, m.round(tx.Size())) }

// The sizes that bbolt rounds to: powers of two from 32 KiB to 1 GiB, then multiples of 1 GiB.
const (
	leastMap = 32 << 10
	stepMap  = 1 << 30
)

func (m *mapping) round(size int64) int64 {
	if size > stepMap {
		return (size + stepMap - 1) / stepMap * stepMap
	}
	n := int64(leastMap)
	for n < size {
		n *= 2
	}
	return n
}
