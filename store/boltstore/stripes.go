package boltstore

import (
	"slices"
	"sync"
	"time"

	"github.com/onefold-go/onefold"
)

// stripeCount is into how many parts keys are divided by hash.
const stripeCount = 256

// stripe holds what is known of the keys of one part: live claims, where outcomes are stored, and the
// history of keys without one.
//
// Its lock is held over the whole decision of Begin, including the read of a stored record. A second
// Begin of the same key simply waits for the lock, so there is no claim that is not yet confirmed. A
// commit enters its record and drops its claim under the same lock, so the two are never both absent.
type stripe struct {
	mu     sync.Mutex
	claims map[uint64]*claim // by hash; keys of equal hash are chained

	// index holds the position of the newest outcome of each key by hash; more holds the further
	// positions of hashes that several keys share. What it points to may have expired.
	index map[uint64]uint64
	more  map[uint64][]uint64

	history map[string]*history // by stored form of the key
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

func (s *Store) stripe(hash uint64) *stripe { return &s.stripes[hash%stripeCount] }

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

// positions returns where outcomes with this hash are stored.
func (st *stripe) positions(hash uint64) (first uint64, more []uint64) {
	first = st.index[hash]
	if first != 0 && len(st.more) > 0 {
		more = st.more[hash]
	}
	return first, more
}

// enter puts an outcome into the index, in place of the expired one of the same key if there is one.
// It reports whether the index has grown.
func (st *stripe) enter(hash, position, replaces uint64) bool {
	first := st.index[hash]
	switch {
	case first == 0 || first == replaces:
		st.index[hash] = position
		return first == 0
	case replaces != 0:
		for i, p := range st.more[hash] {
			if p == replaces {
				st.more[hash][i] = position
				return false
			}
		}
	}
	st.more[hash] = append(st.more[hash], position)
	return true
}

// leave takes an outcome out of the index. It reports whether it was in it.
func (st *stripe) leave(hash, position uint64) bool {
	first, more := st.positions(hash)
	i := slices.Index(more, position)
	switch {
	case first != position && i < 0:
		return false
	case first != position:
		more = slices.Delete(more, i, i+1)
	case len(more) == 0:
		delete(st.index, hash)
	default:
		st.index[hash], more = more[len(more)-1], more[:len(more)-1]
	}
	if len(more) == 0 {
		delete(st.more, hash)
	} else {
		st.more[hash] = more
	}
	return true
}
