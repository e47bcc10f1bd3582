package boltstore

import (
	"os"
	"time"
)

// Storage says how the records of a store are kept; see [Store.Storage].
type Storage struct {
	Active   uint64 // records in the segment that grows; memory holds an index of them
	Frozen   uint64 // records in segments that wait to be written to files of their own; likewise
	Sealed   uint64 // records in segment files, expired ones included
	Segments int    // segment files
	Tiers    []int  // index files by how often they were merged
	Erased   int    // records that were erased and whose segment file is not written anew yet

	MainBytes, SegmentBytes, IndexBytes int64         // sizes of the files
	FilterBytes                         int64         // memory that the filters of the index files take
	Oldest                              time.Duration // since the oldest record in a segment file was committed, by the wall clock; 0: none
}

// Storage reports how records are kept now, for metrics and for sizing. It is cheap and for concurrent use.
// Numbers of a store that is closed are those of its main file alone.
func (s *Store) Storage() Storage {
	active, frozen := s.pieces.counts()
	v := Storage{Active: uint64(active), Frozen: uint64(frozen), Erased: s.marks.count()}
	now := s.shelves.present.Load()
	for _, f := range now.segments {
		v.Segments++
		v.Sealed += f.head.Records
		v.SegmentBytes += f.bytes
		v.Oldest = max(v.Oldest, s.clock.Wall().Sub(time.Unix(0, f.head.Written)))
	}
	for _, x := range now.indexes {
		for len(v.Tiers) <= int(x.tier) {
			v.Tiers = append(v.Tiers, 0)
		}
		v.Tiers[x.tier]++
		v.IndexBytes += x.bytes
	}
	for _, b := range now.banks {
		v.FilterBytes += b.Bytes()
	}
	if info, err := os.Stat(s.path); err == nil {
		v.MainBytes = info.Size()
	}
	return v
}
