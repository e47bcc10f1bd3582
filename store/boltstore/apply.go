package boltstore

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

func (op *commitOp) weight() load { return op.load }

// prepare collects what memory knows of the keys. It is done before the transaction, which must not wait
// for a stripe: who holds one may wait for the snapshot. Only the writer changes the index, so what is
// found stays true.
func (op *commitOp) prepare(g *group) {
	for i := range op.flights {
		f := &op.flights[i]
		f.sealed, f.unread, f.elsewhere = nil, nil, f.elsewhere[:0] // the op may have been put off
		if f.claim == nil {
			continue
		}
		f.prepare(g)
	}
}

func (f *flight) prepare(g *group) {
	if now := g.store.shelves.present.Load(); now.number != f.claim.shelf && now.mayHave(f.claim.hash) {
		// Seldom, since most claims are younger than the shelf. A file that cannot be read fails this entry alone.
		f.sealed, f.unread = g.store.findSealed(f.claim.hash, f.encoded.canon)
	}
	st := g.store.stripe(f.claim.hash)
	st.mu.Lock()
	defer st.mu.Unlock()
	f.elsewhere = slices.DeleteFunc(st.candidates(f.elsewhere[:0], f.claim.hash, f.claim.part), func(p uint64) bool { return p == f.claim.replaces })
	if len(st.history) > 0 {
		f.history = st.history[g.store.historyName(f.encoded.canon, f.claim.hash)]
	}
	if f.history != nil {
		g.load.puts++
	}
	if f.claim.replaces != 0 {
		g.load.puts++
	}
	g.load.puts += len(g.store.attention[f.claim.hash])
}

func (op *commitOp) apply(g *group) error {
	for i := range op.flights {
		f := &op.flights[i]
		if f.again() {
			continue // refused before
		}
		if err := f.look(g); err != nil {
			return err
		}
		if f.err != nil || f.existing != nil {
			continue
		}
		if err := f.join(g); err != nil {
			return err
		}
		if err := f.apply(g); err != nil {
			return err
		}
	}
	return nil
}

// look decides whether the entry may be written: its key must have no outcome, whatever the claim says,
// and what it has read must be as it was.
func (f *flight) look(g *group) error {
	var other found
	if f.sealed != nil {
		other = f.sealed.found
	}
	if len(f.elsewhere) > 0 {
		newer, err := g.store.findIn(&g.b, f.elsewhere, f.claim.hash, f.encoded.canon)
		if err != nil {
			return err
		}
		if newer.position != 0 {
			other = newer
		}
	}
	if other.position != 0 && g.store.alive(other.position, other.record.expires, g.now) {
		if other.record.token == f.claim.public.Token {
			f.existing = other.record.public(f.claim.public.Key)
		} else {
			f.err = fmt.Errorf("%w: %v has an outcome", onefold.ErrLost, f.claim.public.Key)
		}
		return nil
	}
	if f.encoded.more == nil {
		return nil
	}
	for i := range f.encoded.more.reads {
		r := &f.encoded.more.reads[i]
		v, err := g.value(r.key)
		if err != nil {
			return err
		}
		if v.version != r.version {
			table, key, _ := parseStateKey(r.key)
			f.err = fmt.Errorf("%w: state %q/%q has version %d, read was %d", onefold.ErrConflict, table, key, v.version, r.version)
			return nil
		}
	}
	return nil
}

// value returns a value of state as earlier entries of the group have left it; an expired one is absent.
func (g *group) value(key []byte) (value, error) {
	stored, err := g.b.state.get(key)
	if stored == nil || err != nil {
		return value{}, err
	}
	v, err := parseValue(stored)
	if err != nil {
		return value{}, unreadable(err, "state")
	}
	if !v.live(g.now) {
		return value{}, nil
	}
	return v, nil
}

// apply writes the entry.
func (f *flight) apply(g *group) error {
	x := &f.encoded
	if x.more != nil {
		for i := range x.more.writes {
			if err := g.writeState(&x.more.writes[i]); err != nil {
				return err
			}
		}
	}
	if x.record == nil {
		return nil
	}
	f.position = g.next()
	stampRecord(x.record, g.wall.UnixNano(), later(g.now, x.retain))
	if err := g.addRecord(f.position, x.record); err != nil {
		return err
	}
	if old := f.claim.replaces; old != 0 && g.isActive(old) {
		// The expired record of the key goes, or it would keep the bytes of the key and its result.
		if err := g.b.journal.remove(old); err != nil {
			return err
		}
	}
	if err := f.keepAttention(g); err != nil {
		return err
	}
	g.head.longest = max(g.head.longest, x.retain)
	if x.more != nil {
		for i := range x.more.rows {
			if err := f.applyRow(g, &x.more.rows[i]); err != nil {
				return err
			}
		}
	}
	if f.history != nil {
		return g.b.history.remove([]byte(f.history.form))
	}
	return nil
}

// writeState writes or deletes a value. Its version is a journal position, so none is ever used twice.
func (g *group) writeState(w *stateWrite) error {
	old, err := g.b.state.get(w.key)
	if err != nil {
		return err
	}
	if old != nil {
		v, err := parseValue(old)
		if err != nil {
			return unreadable(err, "state")
		}
		if v.expires != 0 {
			if err := g.b.expiry.remove(expiryKey(v.expires, w.key)); err != nil {
				return err
			}
		}
	}
	if w.value == nil {
		return g.b.state.remove(w.key)
	}
	var expires time.Duration
	if w.retain > 0 {
		expires = later(g.now, w.retain)
		if err := g.b.expiry.put(expiryKey(expires, w.key), []byte{valueV2}); err != nil {
			return err
		}
	}
	stampValue(w.value, g.next(), expires)
	return g.b.state.put(w.key, w.value)
}

// applyRow writes one effect. A timer takes the place of the unsent row of the same ID.
func (f *flight) applyRow(g *group, w *rowWrite) error {
	if w.timer != nil {
		if err := g.endTimer(w.timer); err != nil {
			return err
		}
	}
	if w.value == nil {
		return nil
	}
	p := g.next()
	stampRow(w.value, g.now, g.wall.UnixNano(), f.position)
	if err := g.b.rows.add(position(p), w.value); err != nil {
		return err
	}
	if w.timer != nil {
		if err := g.b.timers.put(w.timer, timerValue(p)); err != nil {
			return err
		}
	}
	s, err := parseSummary(w.value)
	if err != nil {
		return err
	}
	r := newRef(p, f.claim.hash, &s)
	r.value, r.size = w.value, len(w.value)+sum.Len
	f.encoded.more.refs = append(f.encoded.more.refs, r)
	if w.timer != nil {
		// A later entry of the group may replace it again; it would look for it among the planned rows.
		g.plan(r)
	}
	return nil
}

// endTimer removes the unsent row of a timer, if there is one. An entry that points to no row of this timer
// has nothing to remove: it is dropped, since the new row, if there is one, takes its place.
func (g *group) endTimer(timer []byte) error {
	stored, err := g.b.timers.get(timer)
	if stored == nil || err != nil {
		return err
	}
	var p *planned
	if at, err := parseTimerValue(stored); err == nil {
		p = g.row(at)
	}
	if err := g.b.timers.remove(timer); err != nil {
		return err
	}
	if p == nil || p.gone || p.ref.timer == "" || !bytes.Equal(timerKey(p.ref.timer), timer) {
		return nil
	}
	return g.endRow(p)
}
