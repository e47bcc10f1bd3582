package consumer

import (
	"slices"
	"sync"
	"time"

	"github.com/onefold-go/onefold"
)

// registry knows every delivery that this process holds, by key. It is how a second delivery of the same
// work is noticed before it costs a claim.
type registry struct {
	mu    sync.Mutex
	byKey map[onefold.Key]*delivery
	seen  sample // highest position that has arrived
	lanes *lanes // nil: without order
}

func newRegistry() *registry {
	return &registry{byKey: make(map[onefold.Key]*delivery)}
}

// maxFollowers bounds the copies that wait for one run. They are searched for each further copy, and each
// takes a place that another message could have.
const maxFollowers = 4096

// arrival is what a registry says to a new delivery.
type arrival uint8

const (
	arrivalNew       arrival = iota + 1 // it is the only one of its key: carry it on
	arrivalFollows                      // another copy runs: it will be answered with that one
	arrivalRepeats                      // the same stream message is held already: answer nothing
	arrivalConflicts                    // its key is held by another payload
	arrivalCrowds                       // too many copies wait already, or too many messages for their turn
	arrivalWaits                        // it is the only one of its key and waits for an earlier one of its ordering key
)

// add enters d. On arrivalConflicts, held is the fingerprint that holds the key.
func (r *registry) add(d *delivery) (a arrival, held onefold.Fingerprint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.see(d)
	first, ok := r.byKey[d.key]
	switch {
	case !ok:
		if a = arrivalNew; d.order != "" {
			a = r.lanes.enter(d)
		}
		if a != arrivalCrowds {
			r.byKey[d.key] = d
		}
		return a, held
	case d.fingerprint.Conflicts(first.fingerprint):
		return arrivalConflicts, first.fingerprint
	case sameMessage(first, d):
		return arrivalRepeats, held
	}
	for _, f := range first.followers {
		if sameMessage(f, d) {
			return arrivalRepeats, held
		}
	}
	if len(first.followers) >= maxFollowers {
		if d.order != "" {
			r.lanes.miss(d)
		}
		return arrivalCrowds, held
	}
	first.followers = append(first.followers, d)
	if d.order != "" {
		r.lanes.follow(first, d)
	}
	return arrivalFollows, held
}

// heldAlready reports whether this very message is held.
func (r *registry) heldAlready(d *delivery) bool {
	first, ok := r.byKey[d.key]
	return ok && (sameMessage(first, d) || slices.ContainsFunc(first.followers, func(f *delivery) bool { return sameMessage(f, d) }))
}

// saw notes a delivery that is answered without being entered.
func (r *registry) saw(d *delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.see(d)
}

func (r *registry) see(d *delivery) {
	if d.msg.Sequence > r.seen.Sequence {
		r.seen = sample{Sequence: d.msg.Sequence, Time: d.msg.Time.UnixNano()}
	}
}

// sameMessage reports whether two deliveries are of one stored message. The stored time is part of the
// answer, because a stream that lost its tail hands out the same positions again.
func sameMessage(a, b *delivery) bool {
	return a.msg.Sequence == b.msg.Sequence && a.msg.Time.Equal(b.msg.Time)
}

// remove takes d out and returns the deliveries that waited for it.
func (r *registry) remove(d *delivery) []*delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey[d.key] != d {
		return nil
	}
	delete(r.byKey, d.key)
	followers := d.followers
	d.followers = nil
	if r.lanes != nil {
		r.lanes.leave(d, followers)
	}
	return followers
}

// inherit puts heir in the place of d, with the deliveries that waited for it and its turn in its lane.
func (r *registry) inherit(d, heir *delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey[d.key] == d {
		r.byKey[d.key] = heir
		heir.followers, d.followers = d.followers, nil
		heir.order, heir.rank, heir.saved = d.order, d.rank, d.saved
		if heir.lane, d.lane = d.lane, nil; heir.lane != nil {
			heir.lane.turn = heir
		}
	}
}

// snapshot returns all held deliveries with their followers, appended to buf.
func (r *registry) snapshot(buf []held) []held {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.byKey {
		buf = append(buf, held{d, append([]*delivery(nil), d.followers...)})
	}
	return buf
}

// held is one entry of a snapshot.
type held struct {
	*delivery
	followers []*delivery
}

// highest returns the highest position that has arrived.
func (r *registry) highest() sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// sample is a position of the stream and when its message was stored (nanoseconds of Unix time).
type sample struct {
	Sequence uint64
	Time     int64
}

// covers reports whether a message stored at that time lies at or below the sample.
func (s sample) covers(sequence uint64, stored time.Time) bool {
	return sequence <= s.Sequence && stored.UnixNano() <= s.Time
}
