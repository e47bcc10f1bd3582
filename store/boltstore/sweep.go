package boltstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/onefold-go/onefold"
)

// sweepStep is how many values of state one sweep removes at most, so that no commit waits for long.
const sweepStep = 256

// sweep collects what has expired. Whether something has expired is decided when it is read, so this only
// gives memory and disk back. It runs in the writer.
func (s *Store) sweep() {
	if s.stopped() != nil {
		return
	}
	s.sweepMemory()
	due := false
	now := s.now()
	err := s.snap.read(func(b *buckets) error {
		first, _ := b.expiry.Cursor().First()
		if first == nil {
			return nil
		}
		expires, _, err := parseExpiryKey(first)
		due = expires <= now
		return err
	})
	if err == nil && due {
		o := &sweepOp{newAnswer()}
		_ = s.writeGroup([]op{o}, o.weight()) // what is not collected now is collected later
	}
}

// sweepMemory ends claims whose lease is over, and drops the history of keys that never got an outcome
// when nothing was added to it for long enough.
func (s *Store) sweepMemory() {
	now, mono := s.now(), s.clock.Mono()
	life := max(leastHistory, s.loadHead().longest)
	for i := range s.stripes {
		st := &s.stripes[i]
		st.mu.Lock()
		for _, c := range st.claims {
			for c != nil {
				next := c.next
				if !c.live(mono) {
					st.drop(c)
				}
				c = next
			}
		}
		for _, h := range st.history {
			if later(h.touched, life) <= now {
				st.forget(h)
				s.changes.add(h)
			}
		}
		st.mu.Unlock()
	}
}

// sweepOp removes values of state that have expired.
type sweepOp struct{ answer }

func (o *sweepOp) weight() load {
	return load{entries: 1, bytes: sweepStep * 32, puts: 2 * sweepStep}
}
func (o *sweepOp) prepare(*group) {}
func (o *sweepOp) publish(*group) {}

func (o *sweepOp) apply(g *group) error {
	keys, err := g.expired(g.now)
	if err != nil {
		return err
	}
	for _, key := range keys {
		expires, name, _ := parseExpiryKey(key)
		if err := g.b.expiry.Delete(key); err != nil {
			return err
		}
		v, err := parseValue(g.b.state.Get(name))
		if err != nil {
			return fmt.Errorf("%w: state: %w", onefold.ErrDamaged, err)
		}
		if v.expires != expires {
			continue // written anew
		}
		if err := g.b.state.Delete(name); err != nil {
			return err
		}
	}
	return nil
}

// expired returns the first keys of the index that are due. A cursor is not used across deletions.
func (g *group) expired(now time.Duration) ([][]byte, error) {
	var keys [][]byte
	cursor := g.b.expiry.Cursor()
	for key, _ := cursor.First(); key != nil && len(keys) < sweepStep; key, _ = cursor.Next() {
		expires, name, err := parseExpiryKey(key)
		if err != nil || len(name) == 0 {
			return nil, fmt.Errorf("%w: index of state by end of life: %w", onefold.ErrDamaged, errFormat)
		}
		if expires > now {
			break
		}
		keys = append(keys, slices.Clone(key))
	}
	return keys, nil
}
