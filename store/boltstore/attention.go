package boltstore

import "slices"

// attention tells where the copies are of the records that need a person: by hash of their key, the positions
// under which they stand in the bucket of that name. They are few, and stay when the record itself has
// expired, until the key is erased or has another outcome. After Open only the writer uses it.
type attention map[uint64][]uint64

func (a attention) enter(hash, at uint64) { a[hash] = append(a[hash], at) }

func (a attention) leave(hash uint64, list []uint64) {
	if len(list) == 0 {
		return
	}
	left := slices.DeleteFunc(a[hash], func(p uint64) bool { return slices.Contains(list, p) })
	if a[hash] = left; len(left) == 0 {
		delete(a, hash)
	}
}

func (s *Store) loadAttention(_ *buckets, key, stored []byte) error {
	at, err := parsePosition(key)
	if err != nil {
		return err
	}
	r, err := parseRecord(stored)
	if err != nil {
		return err
	}
	s.attention.enter(s.formHash(&r.form), at)
	return nil
}

// settleAttention removes what the bucket has of a key. It returns the positions, for leave.
func (g *group) settleAttention(hash uint64, canon []byte) (left []uint64, err error) {
	for _, p := range g.store.attention[hash] {
		at := position(p)
		stored, err := g.b.attention.get(at)
		if err != nil {
			return nil, err
		}
		if stored == nil {
			continue // an earlier op of the group has removed it
		}
		r, err := parseRecord(stored)
		if err != nil {
			return nil, unreadable(err, "record %d that needs a person", p)
		}
		if !r.form.is(canon, hash, g.store.hashKey) {
			continue // another key of the same hash
		}
		if err := g.b.attention.remove(at); err != nil {
			return nil, err
		}
		left = append(left, p)
	}
	return left, nil
}

// keepAttention puts a record of the group that needs a person beside the journal, in place of what there is of
// its key.
func (f *flight) keepAttention(g *group) (err error) {
	if f.calmed, err = g.settleAttention(f.claim.hash, f.encoded.canon); err != nil {
		return err
	}
	if !needsPerson(f.encoded.record) {
		return nil
	}
	return g.b.attention.add(position(f.position), f.encoded.record)
}

// publishAttention notes what keepAttention has done.
func (f *flight) publishAttention(a attention) {
	a.leave(f.claim.hash, f.calmed)
	if needsPerson(f.encoded.record) {
		a.enter(f.claim.hash, f.position)
	}
}
