package boltstore

import (
	"os"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
)

// mapping knows how much of the file is mapped and how much of it has room on the disk, from below: bbolt
// does not tell. It belongs to the writer.
type mapping struct {
	known    int64
	reserved int64 // bytes from the beginning that have blocks on the disk
	pageSize int64
	largest  int64 // bytes of the largest value in the file, at least
}

// What a group may add to the file at most, beside twice its bytes: for each change the pages on the way
// from the root to it, a neighbour and a split; and something for the fixed buckets. bbolt writes a page
// anew with all that stands in it, and up to four values may stand in one page however large they are, and as
// many in a neighbour that is merged with it. Appending to the journal and to the rows is no change in this
// sense: it touches the last page of each only. What only frees splits nothing.
const (
	pagesPerPut    = 10
	pagesPerRemove = 4
	valuesPerPut   = 8
	appendsTo      = 2 // buckets that are appended to
	bytesPerGroup  = 4 << 20
	pagesPerGroup  = 64
)

// largestSpare bounds the room that groups that add something leave free, so that on a full disk effects
// that have left can still be settled, and the store be closed.
const largestSpare = 4 << 20

func newMapping(db *bolt.DB, path string, initial, largest int) (mapping, error) {
	m := mapping{pageSize: int64(db.Info().PageSize), largest: int64(largest)}
	info, err := os.Stat(path)
	if err != nil {
		return m, err
	}
	m.known = m.round(max(int64(initial), info.Size()))
	m.reserved = disk.ReservedAtOpen(info.Size())
	return m, nil
}

// bound is how much the group may add at most to a file that reaches up to end. It decides whether readers
// have to wait while the group is written; see makeWay. It does not hold for joins.
func (m *mapping) bound(g *group, end int64) int64 {
	pages, values := m.adds(g, end)
	return values + pages + bytesPerGroup
}

// need is how far the file may have to reach when the group is written. Pages that are free are used before
// the file grows, as far as one page is enough for what they shall hold.
func (m *mapping) need(g *group, end, free int64) int64 {
	pages, values := m.adds(g, end)
	pages += pagesPerGroup * m.pageSize
	large := m.large(g)
	if g.load.grows {
		pages += pagesPerGroup*m.pageSize + min(end/4, largestSpare)
		values += min(valuesPerPut*large, end)
	}
	if large == 0 {
		pages, values = pages+values, 0
	}
	return end + max(pages-free*m.pageSize, 0) + values
}

// adds is what the group writes at most: in pages of the usual size, and in values however large.
func (m *mapping) adds(g *group, end int64) (pages, values int64) {
	puts, perPut, appends := int64(g.load.puts), int64(pagesPerRemove), int64(0)
	if g.load.grows {
		perPut, appends = pagesPerPut, appendsTo
	}
	histories := int64(len(g.history))
	// Nothing is written anew twice, and a full page that is written anew becomes two.
	pages = min((puts*perPut+histories*pagesPerPut)*m.pageSize, 2*end)
	pages += int64(g.joined.nodes) * pagesPerNode * m.pageSize
	values = 2 * int64(g.load.bytes+g.joined.bytes)
	values += min((puts+appends)*valuesPerPut*m.large(g), end)
	return pages, values
}

// large is the size of the largest value that may be written anew with the group, or 0 if all are small beside
// a page.
func (m *mapping) large(g *group) int64 {
	if n := max(m.largest, int64(g.load.largest)); n > m.pageSize/4 {
		return n
	}
	return 0
}

// wrote notes the values of a group that is in the file now.
func (m *mapping) wrote(g *group) { m.largest = max(m.largest, int64(g.load.largest)) }

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
