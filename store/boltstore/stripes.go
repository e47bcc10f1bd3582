package boltstore

import (
	"slices"
	"sync"
	"time"

	"github.com/onefold-go/onefold"
)

// stripeCount is into how many parts keys are divided, by the highest bits of their hash.
const (
	stripeCount = 256
	stripeShift = 64 - 8
)

// stripe holds what is known of the keys of one part: live claims, where outcomes are stored, and the
// history of keys without one.
//
// Its lock is held over the whole decision of Begin, including the read of a stored record. A second
// Begin of the same key simply waits for the lock, so there is no claim that is not yet confirmed. A
// commit enters its record and drops its claim under the same lock, so the two are never both absent.
type stripe struct {
	mu     sync.Mutex
	claims map[uint64]*claim // by hash; keys of equal hash are chained

	active part   // of the segment that grows
	frozen []part // of those that wait to be sealed, newest first

	history map[string]*history // by stored form of the key
}

// part is the index of one segment that is not sealed yet, as far as this stripe goes: the position of the
// outcome of each key by hash. more holds the further positions of hashes that several keys share. What it
// points to may have expired.
type part struct {
	number uint64 // grows from one part of a stripe to the next
	index  map[uint64]uint64
	more   map[uint64][]uint64
}

func newPart(number uint64) part {
	return part{number: number, index: map[uint64]uint64{}, more: map[uint64][]uint64{}}
}

// claimState is what a claim is now.
type claimState uint8

const (
	held       claimState = iota // until its lease ends or it is renewed
	committing                   // accepted by the writer; does not end before the outcome is known
	gone                         // released, overtaken or replaced by its outcome
)

// claim is the right to run a key. Its fields are guarded by the lock of its stripe, except what is
// constant: public, hash and store.
type claim struct {
	public      onefold.Claim // Handle points back to the claim
	store       *Store
	hash        uint64
	next        *claim
	fingerprint onefold.Fingerprint
	holder      onefold.Holder
	lease       time.Duration
	began, ends time.Duration // monotonic
	replaces    uint64        // position of the expired outcome of the same key; 0: none
	part        uint64        // number of the active part when its key had no outcome that counts
	shelf       uint64        // number of the shelf on which its key had no outcome that counts; 0: none was asked
	state       claimState
	flight      *flight // the commit under way
	start       *startOp
	started     bool // its start is in the history
}

// live reports whether nobody else may have the key.
func (c *claim) live(mono time.Duration) bool {
	return c.state == committing || c.state == held && mono < c.ends
}

// hash is the hash of the canonical form of a key in this store.
func (s *Store) hash(canon []byte) uint64 { return s.hashKey.hash(canon) & s.hashMask }

func (s *Store) stripe(hash uint64) *stripe { return &s.stripes[hash>>stripeShift] }

func (st *stripe) claim(hash uint64, k *onefold.Key) *claim {
	c := st.claims[hash]
	for c != nil && c.public.Key != *k {
		c = c.next
	}
	return c
}

// add makes c findable.
func (st *stripe) add(c *claim) {
	c.next = st.claims[c.hash]
	st.claims[c.hash] = c
}

// drop ends c.
func (st *stripe) drop(c *claim) {
	c.state, c.flight = gone, nil
	first := st.claims[c.hash]
	if first == c {
		if c.next == nil {
			delete(st.claims, c.hash)
		} else {
			st.claims[c.hash] = c.next
		}
		c.next = nil
		return
	}
	for p := first; p != nil; p = p.next {
		if p.next == c {
			p.next, c.next = c.next, nil
			return
		}
	}
}

// candidates appends the positions of outcomes with this hash that are not sealed, those of newer segments
// first. Parts with a lower number than since are left out: whoever looked when that was the active one has seen
// what is in them.
func (st *stripe) candidates(list []uint64, hash, since uint64) []uint64 {
	list = st.active.candidates(list, hash)
	for i := 0; i < len(st.frozen) && st.frozen[i].number >= since; i++ {
		list = st.frozen[i].candidates(list, hash)
	}
	return list
}

func (p *part) candidates(list []uint64, hash uint64) []uint64 {
	first := p.index[hash]
	if first == 0 {
		return list
	}
	list = append(list, first)
	if len(p.more) > 0 {
		list = append(list, p.more[hash]...)
	}
	return list
}

// freeze gives the stripe a new active part.
func (st *stripe) freeze() {
	st.frozen = slices.Insert(st.frozen, 0, st.active)
	st.active = newPart(st.active.number + 1)
}

// thaw forgets the oldest frozen part, whose segment is sealed. It returns how many outcomes that had.
func (st *stripe) thaw() int {
	n := len(st.frozen) - 1
	old := st.frozen[n]
	st.frozen = slices.Delete(st.frozen, n, n+1)
	return old.size()
}

// size is the number of outcomes in p.
func (p *part) size() int {
	n := len(p.index)
	for _, more := range p.more {
		n += len(more)
	}
	return n
}

// enter puts an outcome into the active part, in place of the expired one of the same key if that is there. It
// reports whether the part has grown.
func (p *part) enter(hash, position, replaces uint64) bool {
	first := p.index[hash]
	switch {
	case first == 0 || first == replaces:
		p.index[hash] = position
		return first == 0
	case replaces != 0:
		for i, at := range p.more[hash] {
			if at == replaces {
				p.more[hash][i] = position
				return false
			}
		}
	}
	p.more[hash] = append(p.more[hash], position)
	return true
}

// leave takes an outcome out of the part. It reports whether it was in it.
func (p *part) leave(hash, position uint64) bool {
	first, more := p.index[hash], p.more[hash]
	i := slices.Index(more, position)
	switch {
	case first != position && i < 0:
		return false
	case first != position:
		more = slices.Delete(more, i, i+1)
	case len(more) == 0:
		delete(p.index, hash)
	default:
		p.index[hash], more = more[len(more)-1], more[:len(more)-1]
	}
	if len(more) == 0 {
		delete(p.more, hash)
	} else {
		p.more[hash] = more
	}
	return true
}
