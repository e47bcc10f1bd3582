package consumer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// floorTable is the state table in which each consumer keeps its floor, under its scope.
const floorTable = "onefold.floor"

// floor is the highest stream position below which everything is settled. We ack only what is durable, so
// the server's ack floor is one: a delivery at or below it is a duplicate without any look-up, even after
// the retention of its record. It holds for one life of the stream, and only for messages stored no later
// than the one it names, because a stream that loses its tail uses positions again.
//
// It covers what this store has seen delivered, no more: not what lay below the durable's position when we
// met it first, and not what a filter left out. When the filter changes, the floor reached under the old one
// goes on to answer for the subjects that it selects.
type floor struct {
	Created int64       // when the stream was made: its identity
	Filter  string      // see filterOf
	From    uint64      // position of the durable when we met it under this filter
	At      sample      // the floor; it covers the positions above From up to it
	Seen    uint64      // highest position that has ever arrived
	Past    []pastFloor `json:",omitempty"` // reached under other filters, newest last
	Foreign bool        `json:",omitempty"` // the durable was made by somebody else: it is not ours to make again
}

// pastFloor is a floor that was reached under a filter of then.
type pastFloor struct {
	Filter string
	From   uint64
	At     sample
}

// maxPastFloors bounds what is remembered of earlier filters. Beyond it records have to answer, within
// their retention.
const maxPastFloors = 16

// covers reports whether a delivery is settled by the floor.
func (f *floor) covers(subject string, sequence uint64, stored time.Time) bool {
	if sequence > f.From && f.At.covers(sequence, stored) {
		return true
	}
	for _, p := range f.Past {
		if sequence > p.From && p.At.covers(sequence, stored) && selects(p.Filter, subject) {
			return true
		}
	}
	return false
}

// fit adapts a stored floor to what is found. A stream made anew has none. A stream whose end lies below
// the floor has lost data, so that its floor is its end. Under another filter the floor starts anew, at the
// durable's position.
func (f floor) fit(created int64, filter string, position, last uint64) floor {
	fitted := floor{Created: created, Filter: filter, From: position, Foreign: f.Foreign}
	if f.Created != created {
		return fitted
	}
	fitted.Seen = min(f.Seen, last)
	all := append(slices.Clone(f.Past), pastFloor{f.Filter, f.From, f.At})
	for _, p := range all {
		p.At.Sequence = min(p.At.Sequence, last)
		switch {
		case p.At.Sequence == 0:
		case p.Filter == filter:
			fitted.From, fitted.At = p.From, p.At
		default:
			fitted.Past = append(fitted.Past, p)
		}
	}
	if extra := len(fitted.Past) - maxPastFloors; extra > 0 {
		fitted.Past = fitted.Past[extra:]
	}
	return fitted
}

// lost says what the stream no longer has of what was seen in it; empty: nothing.
func (f floor) lost(created int64, last uint64) string {
	seen := max(f.Seen, f.At.Sequence)
	switch {
	case f.Created == 0:
		return ""
	case f.Created != created:
		return fmt.Sprintf("the stream was made anew at %s: of the former one positions up to %d had been seen; what it held and was not done is gone",
			time.Unix(0, created).UTC().Format(time.RFC3339), seen)
	case last < seen:
		return fmt.Sprintf("the stream ends at position %d, and %d had been seen: it has lost its end", last, seen)
	}
	return ""
}

// filterOf is the stored form of filter subjects: sorted, separated by blanks, which no subject contains.
func filterOf(subjects []string) string {
	return strings.Join(slices.Sorted(slices.Values(subjects)), " ")
}

// selects reports whether filter selects subject. No filter selects all.
func selects(filter, subject string) bool {
	if filter == "" {
		return true
	}
	for one := range strings.SplitSeq(filter, " ") {
		if matches(one, subject) {
			return true
		}
	}
	return false
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
	b, _ := json.Marshal(f) // numbers and strings always encode
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
