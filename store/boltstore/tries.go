package boltstore

import (
	"cmp"
	"errors"
	"slices"
)

// rank says where an op stands in its group: joins come behind everything that could suffer from their tries, and
// the farewell is the last word.
func rank(o op) int {
	if _, ok := o.(*farewell); ok {
		return 2
	}
	return min(o.weight().joins, 1)
}

// sort puts the ops in the order of their ranks.
func (g *group) sort() {
	if g.load.joins > 0 {
		slices.SortStableFunc(g.ops, func(a, b op) int { return cmp.Compare(rank(a), rank(b)) })
	}
}

// tryUntilJoined runs the transaction until no join fails in it. Each failure leaves one entry out, so it ends.
// Nothing has been synced for a try that failed.
func (s *Store) tryUntilJoined(g *group) (id int, err error) {
	for {
		id, err = s.transact(g)
		var failed *joinError
		if !errors.As(err, &failed) {
			return id, err
		}
		g.deny(failed)
	}
}

// deny leaves the entry whose join has failed out of the next try. After some failures the ops behind it come
// into groups of their own, so that a group is not tried as often as it has entries.
func (g *group) deny(failed *joinError) {
	failed.flight.encoded.more.denied = failed.err
	if g.failures++; g.failures < maxJoinFailures {
		return
	}
	i := 1 + slices.IndexFunc(g.ops, func(o op) bool { return o == op(failed.flight.op) })
	for _, o := range g.ops[i:] {
		if c, ok := o.(*commitOp); ok {
			c.alone = true
		}
	}
	g.delay(i)
}

// fullBefore reports whether no further joins come into the group before op i. At least one op with joins is
// taken.
func (g *group) fullBefore(i int) bool {
	if i == 0 || rank(g.ops[i]) != 1 || rank(g.ops[i-1]) != 1 {
		return false
	}
	return g.joinTime >= joinTime || alone(g.ops[i]) || alone(g.ops[i-1])
}

func alone(o op) bool {
	c, ok := o.(*commitOp)
	return ok && c.alone
}

// delay puts off all ops from i on.
func (g *group) delay(i int) {
	g.putOff = slices.Concat(g.ops[i:], g.putOff)
	g.ops = g.ops[:i]
}

// again makes a flight ready for a try of its group. It reports whether the entry was refused before: when the
// group was prepared, or in an earlier try.
func (f *flight) again() bool {
	f.err, f.existing, f.position = f.unread, nil, 0
	if m := f.encoded.more; m != nil {
		m.refs = nil
		if m.denied != nil {
			f.err = m.denied
		}
	}
	return f.err != nil
}
