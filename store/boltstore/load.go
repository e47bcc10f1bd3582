package boltstore

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// loadMemory fills index, rows and history from the file.
func (s *Store) loadMemory(b *buckets) error {
	for _, f := range []struct {
		what   string
		bucket *bucket
		load   func(b *buckets, key, stored []byte) error
	}{
		{"row", &b.rows, s.loadWaiting}, {"parked row", &b.parked, s.loadParked},
		{"history", &b.history, s.loadHistory}, {"mark", &b.erased, s.loadMark},
		{"record that needs a person", &b.attention, s.loadAttention},
	} {
		if f.bucket.raw == nil {
			continue // not made yet, in a store of format 1
		}
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
	return s.loadJournal(b)
}

// formHash is the hash of the key that f stands for.
func (s *Store) formHash(f *keyForm) uint64 {
	if f.raw != nil {
		return s.hash(f.raw)
	}
	return f.hash & s.hashMask
}

// loadJournal enters the records that are not sealed into the index, and finds out which pieces are left over
// from segments that are.
func (s *Store) loadJournal(b *buckets) error {
	if err := b.journal.list(); err != nil {
		return err
	}
	now := s.shelves.present.Load()
	since := time.Duration(math.MaxInt64)
	p := &s.pieces
	for i, opened := range b.journal.pieces {
		bucket, err := b.journal.piece(opened.first)
		if err != nil {
			return err
		}
		end := s.head.position + 1
		if i+1 < len(b.journal.pieces) {
			end = b.journal.pieces[i+1].first
		}
		segment := now.segment(opened.first)
		if segment != nil {
			end = min(end, segment.head.End)
		}
		if err := checkPiece(bucket, opened.first, end); err != nil {
			return err
		}
		if segment != nil {
			p.sealed = append(p.sealed, piece{first: opened.first})
			continue
		}
		one := piece{first: opened.first}
		err = bucket.each(func(key, stored []byte) error {
			expires, err := s.loadRecord(key, stored)
			if err != nil {
				return unreadable(err, "record %x", key)
			}
			since = min(since, expires)
			one.records++
			return nil
		})
		if err != nil {
			return err
		}
		if len(p.active.pieces) == 0 {
			p.active.first = one.first
		}
		p.active.pieces = append(p.active.pieces, one)
	}
	// When the first one was stored is not kept; this is the case if all are kept equally long.
	p.since = min(since-s.head.longest, s.head.clock)
	return nil
}

// checkPiece makes sure that the records of a piece are those that are looked for in it: from first on, and before
// end. The names of pieces are all that has no checksum.
func checkPiece(b *bucket, first, end uint64) error {
	cursor := b.cursor()
	low, _ := cursor.First()
	high, _ := cursor.Last()
	if low == nil {
		return nil
	}
	from, err := parsePosition(low)
	if err != nil {
		return unreadable(err, "record %x", low)
	}
	last, err := parsePosition(high)
	if err != nil {
		return unreadable(err, "record %x", high)
	}
	if from < first || last >= end {
		return fmt.Errorf("%w: bucket %q, piece %d: its records are %d to %d, and should be before %d",
			onefold.ErrDamaged, b.name, first, from, last, end)
	}
	return nil
}

// loadRecord enters a record into the index. A key may have several: the newest counts, and the others had
// expired when it was written.
func (s *Store) loadRecord(key, stored []byte) (expires time.Duration, err error) {
	at, err := parsePosition(key)
	if err != nil {
		return 0, err
	}
	r, err := parseRecord(stored)
	if err != nil {
		return 0, err
	}
	hash := s.formHash(&r.form)
	s.stripe(hash).active.load(hash, at)
	s.records.Add(1)
	return r.expires, nil
}

func (s *Store) loadMark(_ *buckets, key, stored []byte) error {
	at, err := parsePosition(key)
	if err != nil {
		return err
	}
	if _, err := parseRecord(stored); err != nil {
		return err
	}
	s.marks.set(at, slices.Clone(stored), math.MinInt64)
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
	r.size, r.parked, r.filedParked, r.suspect = len(stored)+sum.Len, parked, parked, !s.info.Clean
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
