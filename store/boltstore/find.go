package boltstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/onefold-go/onefold"
)

// found is the outcome of a key.
type found struct {
	position uint64 // 0: there is none
	live     bool   // see alive
	record   record // shares no memory with the file
	shelf    uint64 // number of the shelf that was asked as well; 0: none
}

// outside is what the segment files said of a key when this shelf was the present one.
type outside struct {
	shelf *shelf
	found found
}

// find looks for the outcome of a key, newest first: in the part of the journal that is not sealed, then in
// the segment files. The lock of st is held, so what it finds stays true until then.
//
// Files are not read under the lock. If the filters say that they may hold the key, ok is false: the caller
// gives the lock up, asks findSealed, takes the lock and repeats, and the answer counts if the shelf is still
// the same. A segment comes onto the shelf before it leaves the memory of the stripes, so a look at the one
// and then at the other misses nothing.
func (s *Store) find(st *stripe, hash uint64, canon []byte, out *outside) (f found, ok bool, err error) {
	var buffer [4]uint64
	if list := st.candidates(buffer[:0], hash, 0); len(list) > 0 {
		// The copies keep the buffers off the heap for fresh keys.
		f, err = s.findUnsealed(slices.Clone(list), hash, slices.Clone(canon))
		if err != nil || f.position != 0 {
			return f, true, err
		}
	}
	now := s.shelves.present.Load()
	switch {
	case out != nil && out.shelf == now:
		f = out.found
		f.live = f.position != 0 && s.alive(f.position, f.record.expires, s.now())
	case now.mayHave(hash):
		return found{}, false, nil
	}
	f.shelf = now.number
	return f, true, nil
}

func (s *Store) findUnsealed(list []uint64, hash uint64, canon []byte) (f found, err error) {
	err = s.snap.read(func(b *buckets) error {
		f, err = s.findIn(b, list, hash, canon)
		return err
	})
	f.live = f.position != 0 && s.alive(f.position, f.record.expires, s.now())
	return f, err
}

// alive reports whether a record still counts: its retention is not over, or an effect of it is unsettled.
func (s *Store) alive(position uint64, expires, now time.Duration) bool {
	return now < expires || s.rows.unsettled(position) > 0
}

// findIn reads the records at the given positions until it meets the one of the key. An expired record is
// removed from the file a little before it leaves the index, so one that is missing is passed over.
func (s *Store) findIn(b *buckets, list []uint64, hash uint64, canon []byte) (found, error) {
	for _, p := range list {
		stored, err := b.journal.get(p)
		if err != nil {
			return found{}, err
		}
		if stored == nil {
			continue
		}
		f, err := s.match(p, stored, hash, canon)
		if err != nil || f.position != 0 {
			return f, err
		}
	}
	return found{}, nil
}

// match returns the record at a position if it is of the key. If the record was erased after its segment was
// frozen, its mark counts instead.
func (s *Store) match(at uint64, stored []byte, hash uint64, canon []byte) (found, error) {
	r, err := parseRecord(stored)
	if err != nil {
		return found{}, unreadable(err, "record %d", at)
	}
	if !r.form.is(canon, hash, s.hashKey) {
		return found{}, nil
	}
	if mark := s.marks.of(at); mark != nil {
		if r, err = parseRecord(mark); err != nil {
			return found{}, unreadable(err, "mark %d", at)
		}
	}
	r.result = slices.Clone(r.result)
	if r.form.raw != nil {
		r.form.raw = canon // equal bytes that outlive the transaction
	}
	return found{position: at, record: r}, nil
}

// findSealed looks for the outcome of a key in the segment files, newest first. Errors: ErrDamaged, ErrClosed.
func (s *Store) findSealed(hash uint64, canon []byte) (*outside, error) {
	now := s.shelves.use()
	defer s.shelves.done(now)
	out := &outside{shelf: now}
	var list []uint64
	for _, x := range now.candidates(hash) {
		var err error
		if list, err = x.Find(list[:0], hash); err != nil {
			return nil, err
		}
		for _, p := range list {
			if out.found, err = s.readSealed(now, p, hash, canon); err != nil {
				return nil, err
			}
			if out.found.position != 0 {
				return out, nil
			}
		}
	}
	return out, nil
}

// allSealed returns all records of a key in the segment files, expired ones too. Errors: ErrDamaged.
func (s *Store) allSealed(hash uint64, canon []byte) (all []found, err error) {
	now := s.shelves.use()
	defer s.shelves.done(now)
	var list []uint64
	for _, x := range now.indexes {
		if list, err = x.Find(list[:0], hash); err != nil {
			return nil, err
		}
		for _, p := range list {
			f, err := s.readSealed(now, p, hash, canon)
			if err != nil {
				return nil, err
			}
			if f.position != 0 {
				all = append(all, f)
			}
		}
	}
	return all, nil
}

func (s *Store) readSealed(now *shelf, at, hash uint64, canon []byte) (found, error) {
	segment := now.segment(at)
	if segment == nil {
		return found{}, nil // it has ended
	}
	stored, err := segment.Get(at)
	if err != nil {
		return found{}, err
	}
	if stored == nil {
		return found{}, fmt.Errorf("%w: %s lacks the record at %d", onefold.ErrDamaged, segment.Path(), at)
	}
	return s.match(at, stored, hash, canon)
}
