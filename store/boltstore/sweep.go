package boltstore

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/onefold-go/onefold"
)

// sweepStep is how many values of state one step removes at most.
const sweepStep = 256

// sweeper decides when the writer collects what has expired. Whether something has expired is decided when
// it is read, so this only gives memory and disk back.
//
// A round begins with the ticker and goes on in bounded steps, one with each group, until nothing is due: a
// writer that is never idle sweeps as well, and no commit waits for long.
type sweeper struct {
	ticker *time.Ticker
	due    bool // a round is under way
}

// look begins a round if it is time, and reports whether the next step is due.
func (w *sweeper) look(s *Store) bool {
	select {
	case <-s.closing:
		return false // Close does not wait for it
	case <-w.ticker.C:
		w.begin(s)
	default:
	}
	w.due = w.due && s.stopped() == nil && s.expiredState()
	return w.due
}

// begin begins a round.
func (w *sweeper) begin(s *Store) {
	if s.stopped() == nil {
		s.lookAfterFile()
		s.sweepMemory()
		w.due = true
	}
}

// lookAfterFile stops the store if somebody has put another main file in place of the open one, or removed it:
// what is written from now on would be gone at the next Open.
func (s *Store) lookAfterFile() {
	if err := replaced(s.file, s.path); err != nil && (errors.Is(err, errReplaced) || errors.Is(err, fs.ErrNotExist)) {
		s.stop(fmt.Errorf("%w: %s while it was open: %w; a file is replaced only while no process has the store open",
			onefold.ErrDamaged, s.path, err))
	}
}

// expiredState reports whether a value of state has expired.
func (s *Store) expiredState() bool {
	due, now := false, s.now()
	err := s.snap.read(func(b *buckets) error {
		first, _ := b.expiry.cursor().First()
		if first == nil {
			return nil
		}
		expires, _, err := parseExpiryKey(first)
		due = expires <= now
		return err
	})
	return err == nil && due
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
	return load{bytes: sweepStep * 32, puts: 2 * sweepStep}
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
		if err := g.b.expiry.remove(key); err != nil {
			return err
		}
		stored, err := g.b.state.get(name)
		if err != nil {
			return err
		}
		if stored == nil {
			continue // the index alone had it
		}
		v, err := parseValue(stored)
		if err != nil {
			return unreadable(err, "state")
		}
		if v.expires != expires {
			continue // written anew
		}
		if err := g.b.state.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// expired returns the first keys of the index that are due. A cursor is not used across deletions.
func (g *group) expired(now time.Duration) ([][]byte, error) {
	var keys [][]byte
	cursor := g.b.expiry.cursor()
	for key, stored := cursor.First(); key != nil && len(keys) < sweepStep; key, stored = cursor.Next() {
		if _, err := g.b.expiry.check(key, stored); err != nil {
			return nil, err
		}
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
