package consumer

import (
	"encoding/json"
	"time"
)

// floorTable is the state table in which each consumer keeps its floor, under its scope.
const floorTable = "onefold.floor"

// floor is the highest stream position below which everything is settled. We ack only what is durable, so
// the server's ack floor is one: a delivery at or below it is a duplicate without any look-up, even after
// the retention of its record. It holds for one life of the stream, and only for messages stored no later
// than the one it names, because a stream that loses its tail uses positions again.
type floor struct {
	Created int64  // when the stream was made: its identity
	At      sample // the floor
	Seen    uint64 // highest position that has ever arrived
}

// covers reports whether a delivery is settled by the floor.
func (f floor) covers(sequence uint64, stored time.Time) bool {
	return f.At.covers(sequence, stored)
}

// fit adapts a stored floor to the stream as it is found: a stream made anew has none, and one whose end
// lies below the floor has lost data, so that its floor is its end.
func (f floor) fit(created int64, last uint64) floor {
	if f.Created != created {
		return floor{Created: created}
	}
	f.At.Sequence = min(f.At.Sequence, last)
	f.Seen = min(f.Seen, last)
	return f
}

// advance moves the floor to the highest sample that the server's ack floor has reached. It never falls.
func (f floor) advance(ackFloor uint64, seen []sample) floor {
	for _, s := range seen {
		if s.Sequence <= ackFloor && s.Sequence > f.At.Sequence && s.Time >= f.At.Time {
			f.At = s
		}
		f.Seen = max(f.Seen, s.Sequence)
	}
	return f
}

// encode and decodeFloor are the stored form.
func (f floor) encode() []byte {
	b, _ := json.Marshal(f) // a struct of integers always encodes
	return b
}

func decodeFloor(b []byte) (floor, error) {
	var f floor
	if len(b) == 0 {
		return f, nil
	}
	err := json.Unmarshal(b, &f)
	return f, err
}

// maxSamples bounds what is remembered of positions seen and not yet below the server's ack floor.
const maxSamples = 128

// keepSamples adds s to the samples above the floor, dropping the oldest beyond maxSamples.
func keepSamples(samples []sample, s sample, f floor) []sample {
	kept := samples[:0]
	for _, o := range samples {
		if o.Sequence > f.At.Sequence {
			kept = append(kept, o)
		}
	}
	if s.Sequence > f.At.Sequence && (len(kept) == 0 || kept[len(kept)-1].Sequence < s.Sequence) {
		kept = append(kept, s)
	}
	if len(kept) > maxSamples {
		kept = kept[len(kept)-maxSamples:]
	}
	return kept
}
