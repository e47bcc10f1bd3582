package boltstore

import "time"

// The decisions of the upkeep: when the journal is cut, and which files are made, merged and ended. They are
// functions of what is given to them.

const (
	// tierFactor is how many indexes of one tier are merged into one of the next. Each entry is merged once for
	// each tier, and at most tierFactor-1 indexes of each tier are left: 12 of 200 segments, which are 100 million
	// records. Each index has one fresh key in 256 read a block for nothing, which costs more than merging.
	tierFactor = 4

	// maxFrozen is how many frozen segments may wait to be sealed. If there are more, the active one grows.
	maxFrozen = 4

	// agePart is into how many segments at least a retention is divided, so that expired records stay for a
	// sixteenth of their life at most.
	agePart = 16

	// leastAge keeps stores with short retentions from making many small files.
	leastAge = time.Minute
)

// activeState is what is known of the active segment.
type activeState struct {
	records int
	since   time.Duration // store clock of its first record
	frozen  int           // segments that wait to be sealed
}

// shouldFreeze decides whether the active segment is full or old. longest is the longest retention seen.
func shouldFreeze(a activeState, now, longest time.Duration, segmentRecords int) bool {
	switch {
	case a.records == 0 || a.frozen >= maxFrozen:
		return false
	case a.records >= segmentRecords:
		return true
	}
	return now-a.since >= max(leastAge, longest/agePart)
}

// nextMerge decides which indexes are merged next, given their tiers from the oldest to the newest: the
// oldest run of so many neighbours of one tier, if there is one.
func nextMerge(tiers []uint8, factor int) (from, to int, ok bool) {
	run := 0
	for i := range tiers {
		if i > 0 && tiers[i] == tiers[i-1] {
			run++
		} else {
			run = 1
		}
		if run == factor {
			return i + 1 - factor, i + 1, true
		}
	}
	return 0, 0, false
}

// positions is a range of them, without its end.
type positions struct{ first, end uint64 }

// overlaps reports whether p and o have a position in common.
func (p positions) overlaps(o positions) bool { return p.first < o.end && o.first < p.end }

// deadIndexes returns which indexes point to segments that have all ended.
func deadIndexes(indexes, segments []positions) (dead []int) {
	for i, x := range indexes {
		lives := false
		for _, s := range segments {
			lives = lives || s.overlaps(x)
		}
		if !lives {
			dead = append(dead, i)
		}
	}
	return dead
}
