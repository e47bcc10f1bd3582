package boltstore

import "fmt"

// loadMemory fills index, rows and history from the file.
func (s *Store) loadMemory(b *buckets) error {
	for _, f := range []struct {
		what   string
		bucket *bucket
		load   func(b *buckets, key, stored []byte) error
	}{
		{"record", &b.segment, s.loadRecord}, {"row", &b.rows, s.loadWaiting}, {"parked row", &b.parked, s.loadParked},
		{"history", &b.history, s.loadHistory},
	} {
		err := f.bucket.each(func(key, stored []byte) error {
			if err := f.load(b, key, stored); err != nil {
				return unreadable(err, "%s %x", f.what, key)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// formHash is the hash of the key that f stands for.
func (s *Store) formHash(f *keyForm) uint64 {
	if f.raw != nil {
		return s.hash(f.raw)
	}
	return f.hash & s.hashMask
}

// loadRecord enters a record into the index. Of several records of one key the newest counts; the others
// had expired when it was written.
func (s *Store) loadRecord(b *buckets, key, stored []byte) error {
	at, err := parsePosition(key)
	if err != nil {
		return err
	}
	r, err := parseRecord(stored)
	if err != nil {
		return err
	}
	if at > s.head.position {
		return fmt.Errorf("it is beyond the last position, %d", s.head.position)
	}
	hash := s.formHash(&r.form)
	st := s.stripe(hash)
	replaces := uint64(0)
	first, more := st.positions(hash)
	for i := -1; first != 0 && i < len(more); i++ {
		p := first
		if i >= 0 {
			p = more[i]
		}
		stored, err := b.segment.get(position(p))
		if err != nil {
			return err
		}
		older, err := parseRecord(stored)
		if err != nil {
			return err
		}
		if older.form.same(&r.form, s.hashKey) {
			replaces = p
			break
		}
	}
	if st.enter(hash, at, replaces) {
		s.records.Add(1)
	}
	return nil
}

func (s *Store) loadWaiting(_ *buckets, key, stored []byte) error {
	return s.loadRow(key, stored, false)
}

func (s *Store) loadParked(_ *buckets, key, stored []byte) error {
	return s.loadRow(key, stored, true)
}

func (s *Store) loadRow(key, stored []byte, parked bool) error {
	at, err := parsePosition(key)
	if err != nil {
		return err
	}
	summary, err := parseSummary(stored)
	if err != nil {
		return err
	}
	r := newRef(at, s.hash(summary.canon), &summary)
	r.size, r.parked, r.filedParked, r.suspect = len(stored)+sumLen, parked, parked, !s.info.Clean
	s.rows.add(r)
	return nil
}

func (s *Store) loadHistory(_ *buckets, key, stored []byte) error {
	f, err := parseForm(key)
	if err != nil {
		return err
	}
	a, err := parseAttempts(stored)
	if err != nil {
		return err
	}
	h := &history{attempts: a, form: string(key), hash: s.formHash(&f)}
	s.stripe(h.hash).history[h.form] = h
	return nil
}
