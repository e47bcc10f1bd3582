package consumer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/onefold-go/onefold"
)

// This file is Config.OrderBy: of the messages that this process holds, no two of one ordering key run at once,
// and none starts before an earlier one that it has seen is settled. Earlier means lower in the stream, seen
// means that it has arrived here, settled means done or given up.
//
// Each ordering key has a lane. One message of a lane has the turn; others wait. What has arrived and has gone
// again unsettled, because it failed, was given back or lost its claim, is missed: those behind it wait until it
// has come back and is settled, or until watchLanes has found that it never will. lanestore.go keeps what is
// missed over a restart.

// newLanes returns no lanes yet. waits and starts are called with the registry locked and must not call it: when
// a delivery has to wait for its turn, and when it has got it.
func newLanes(limit int, rule heartbeatRule, mono func() time.Duration, waits, starts func(*delivery)) *lanes {
	return &lanes{byKey: make(map[string]*lane), limit: limit, rule: rule, mono: mono, waits: waits, starts: starts}
}

// lanes are all lanes of a session. The registry guards them: what is held and what has the turn change in one
// step.
type lanes struct {
	byKey   map[string]*lane
	waiting int      // in all lanes
	limit   int      // of waiting
	ending  bool     // nobody may begin to wait any more
	gather  *gather  // nobody gets a turn until it is over; nil: it is
	over    []uint64 // sequences of saved rows that are of no use any more
	rule    heartbeatRule
	mono    func() time.Duration

	waits, starts func(*delivery)
}

// maxWaiting bounds the messages that wait for an earlier one, of all keys together; one key may have as many as
// there is room left for others. What does not fit is given back with a delay.
const maxWaiting = 1024

// waitLimit is how many messages may wait where the server allows so many unanswered ones (0: any number): at
// most half of them, so that those of other keys still come.
func waitLimit(maxAckPending int) int {
	if maxAckPending <= 0 {
		return maxWaiting
	}
	return min(maxWaiting, maxAckPending/2)
}

// lane is the messages of one ordering key.
type lane struct {
	turn   *delivery   // may run, and has not ended
	waits  []*delivery // by rank
	missed []missed    // by sequence

	began time.Duration // when the turn was given
	each  time.Duration // how long a turn takes, of late
}

// missed is a message that has been seen and is neither held nor settled.
type missed struct {
	place
	key onefold.Key
	due time.Duration // when it may come again; on the monotonic clock

	saved bool // lanestore.go has a row of it
}

// place is where a message stands in the stream.
type place struct {
	sequence uint64
	stored   int64 // nanoseconds of Unix time: a stream that lost its tail uses positions again
}

func placeOf(m *onefold.Message) place { return place{m.Sequence, m.Time.UnixNano()} }

// laneName stands for an ordering key: the key, or a digest of another length if it is long, so that what is
// kept for a key is bounded.
func laneName(key string) string {
	if len(key) <= 2*sha256.Size {
		return key
	}
	digest := sha256.Sum256([]byte(key))
	return "#" + hex.EncodeToString(digest[:])
}

// next is the delivery that may start now: the first that waits, if nobody has the turn and nothing before it
// is missed.
func (l *lane) next() *delivery {
	if l.turn != nil || len(l.waits) == 0 || l.misses(l.waits[0].rank) {
		return nil
	}
	return l.waits[0]
}

// misses reports whether something before p is missed.
func (l *lane) misses(p uint64) bool { return len(l.missed) > 0 && l.missed[0].sequence < p }

// behind is how many messages of the lane stand before p.
func (l *lane) behind(p uint64) int {
	n, _ := slices.BinarySearchFunc(l.missed, p, func(m missed, p uint64) int { return cmp.Compare(m.sequence, p) })
	w, _ := l.find(p)
	if l.turn != nil {
		n++
	}
	return n + w
}

// find returns where in waits a delivery of that place stands or would stand.
func (l *lane) find(p uint64) (int, bool) {
	return slices.BinarySearchFunc(l.waits, p, func(d *delivery, p uint64) int { return cmp.Compare(d.rank, p) })
}

// crowd is what the stay of a message depends on that finds no room to wait.
type crowd struct {
	before   int           // messages of its key that come first
	each     time.Duration // how long one takes; 0: not known
	so       time.Duration // for how long the one that has the turn has had it; 0: nobody has it
	untilDue time.Duration // until what it has to wait for may come again
	ackWait  time.Duration
}

// delay is how long it stays away: until those before it may have run, as far as can be told, and not before what
// it waits for may come again. It is at most AckWait, because that is how long a process waits after a crash for
// what it knows nothing of.
func (c crowd) delay() time.Duration {
	least := giveBackDelay(c.ackWait)
	if c.each > 0 {
		least = minCrowdDelay
	}
	if c.each > 0 && c.before > int(c.ackWait/c.each) {
		return c.ackWait
	}
	return min(max(least, time.Duration(c.before)*c.each, c.so, c.untilDue), c.ackWait)
}

// minCrowdDelay is the shortest stay: messages that come and go cost the server and us.
const minCrowdDelay = 50 * time.Millisecond

// enter takes in a delivery that is the only one of its key. It gets the turn, waits, or finds no room.
func (s *lanes) enter(d *delivery) arrival {
	l := s.byKey[d.order]
	if l == nil {
		l = &lane{}
		s.byKey[d.order] = l
	}
	d.saved = l.found(d.msg.Sequence)
	if s.gather == nil && l.turn == nil && !l.misses(d.rank) && (len(l.waits) == 0 || d.rank < l.waits[0].rank) {
		d.lane = l
		l.turn, l.began = d, s.mono()
		return arrivalNew
	}
	// No lane may fill more of the room than is left for others.
	if len(l.waits) >= s.limit-s.waiting || s.ending {
		d.delay = s.crowding(l, d).delay()
		s.miss(d)
		return arrivalCrowds
	}
	d.lane = l
	d.set(stageWaiting)
	at, _ := l.find(d.rank)
	l.waits = slices.Insert(l.waits, at, d)
	s.waiting++
	s.waits(d)
	return arrivalWaits
}

func (s *lanes) crowding(l *lane, d *delivery) crowd {
	c := crowd{before: l.behind(d.rank), each: l.each, ackWait: s.rule.ackWait}
	if l.turn != nil {
		c.so = s.mono() - l.began
	}
	if l.misses(d.rank) {
		c.untilDue = l.missed[0].due - s.mono()
	}
	return c
}

// follow notes that d has arrived and waits for first, which is of the same key: the work that both stand for
// has the place of the earlier one.
func (s *lanes) follow(first, d *delivery) {
	l := s.byKey[d.order]
	if l == nil {
		return
	}
	d.saved = l.found(d.msg.Sequence)
	if first.lane == l && d.msg.Sequence < first.rank {
		if at, ok := l.find(first.rank); ok && l.turn != first {
			l.waits = slices.Delete(l.waits, at, at+1)
			at, _ = l.find(d.msg.Sequence)
			l.waits = slices.Insert(l.waits, at, first)
		}
		first.rank = d.msg.Sequence
	}
	s.advance(d.order)
}

// leave ends the stay of d and of the copies that waited for it, whether d had the turn or waited. Unless its
// outcome is known they are missed from now on.
func (s *lanes) leave(d *delivery, copies []*delivery) {
	for _, c := range copies {
		c.delay = d.delay
		s.part(c, d.outcome != 0)
	}
	if l := d.lane; l != nil {
		d.lane = nil
		if l.turn == d {
			l.turn = nil
			if d.outcome != 0 {
				l.each = time.Duration(smoothed(float64(l.each), float64(s.mono()-l.began)))
			}
		} else if at, ok := l.find(d.rank); ok {
			l.waits = slices.Delete(l.waits, at, at+1)
			s.waiting--
		}
		s.part(d, d.outcome != 0)
	}
	s.advance(d.order)
	for _, c := range copies {
		s.advance(c.order)
	}
}

// part says how a message that is not held any more has gone.
func (s *lanes) part(d *delivery, settled bool) {
	if d.order == "" {
		return
	}
	if !settled {
		s.miss(d)
		return
	}
	if l := s.byKey[d.order]; l != nil && l.found(d.msg.Sequence) {
		d.saved = true
	}
	if d.saved {
		s.over = append(s.over, d.msg.Sequence)
	}
}

// miss notes that d has gone unsettled.
func (s *lanes) miss(d *delivery) {
	s.missAt(d.order, missed{place: placeOf(&d.msg), key: d.key, due: s.mono() + d.delay, saved: d.saved})
}

func (s *lanes) missAt(order string, m missed) {
	l := s.byKey[order]
	if l == nil {
		l = &lane{}
		s.byKey[order] = l
	}
	at, ok := l.where(m.sequence)
	if ok {
		m.saved = m.saved || l.missed[at].saved
		l.missed[at] = m
		return
	}
	l.missed = slices.Insert(l.missed, at, m)
}

func (l *lane) where(sequence uint64) (int, bool) {
	return slices.BinarySearchFunc(l.missed, sequence, func(m missed, q uint64) int { return cmp.Compare(m.sequence, q) })
}

// found says that a message is missed no more, and reports whether it was saved.
func (l *lane) found(sequence uint64) (saved bool) {
	if at, ok := l.where(sequence); ok {
		saved = l.missed[at].saved
		l.missed = slices.Delete(l.missed, at, at+1)
	}
	return saved
}

// advance gives the turn of a lane to whoever may start, and forgets an empty lane.
func (s *lanes) advance(order string) {
	l := s.byKey[order]
	if l == nil {
		return
	}
	if d := l.next(); d != nil && s.gather == nil && d.move(stageWaiting, stageQueued) { // else it is about to leave
		l.waits = slices.Delete(l.waits, 0, 1)
		s.waiting--
		l.turn, l.began = d, s.mono()
		s.starts(d)
	}
	if l.turn == nil && len(l.waits) == 0 && len(l.missed) == 0 {
		delete(s.byKey, order)
	}
}
