package consumer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// yard is a registry with lanes, and what a session would know of it.
type yard struct {
	*registry
	now     time.Duration
	started []*delivery
	waiting int
}

func newYard(limit int) *yard {
	y := &yard{registry: newRegistry()}
	y.lanes = newLanes(limit, heartbeatRule{ackWait: 30 * time.Second}, func() time.Duration { return y.now },
		func(*delivery) { y.waiting++ }, func(d *delivery) { y.started = append(y.started, d) })
	return y
}

// ordered is a message of a lane.
func ordered(lane, id string, sequence uint64) *delivery {
	d := arrive(id, sequence, 1)
	d.order, d.rank = laneName(lane), sequence
	return d
}

// end takes a delivery out, settled or not.
func (y *yard) end(d *delivery, settled bool) []*delivery {
	if settled {
		d.outcome = onefold.Succeeded
	}
	d.set(stageEnded)
	return y.remove(d)
}

func (y *yard) come(t *testing.T, d *delivery, want arrival) *delivery {
	t.Helper()
	a, _ := y.add(d)
	require.Equal(t, want, a)
	return d
}

func TestAMessageWaitsForTheEarlierOneOfItsKeyUntilItIsSettled(t *testing.T) {
	y := newYard(10)
	one := y.come(t, ordered("k", "1", 1), arrivalNew)
	two := y.come(t, ordered("k", "2", 2), arrivalWaits)
	y.come(t, ordered("other", "3", 3), arrivalNew)
	y.end(one, false)
	assert.Empty(t, y.started, "the first has failed and is to come again")
	one = y.come(t, ordered("k", "1", 1), arrivalNew)
	y.end(one, true)
	assert.Equal(t, []*delivery{two}, y.started)
	assert.Equal(t, stageQueued, two.at())
}

func TestADeadLetterOnItsWayHoldsUpNobody(t *testing.T) {
	y := newYard(10)
	one := y.come(t, ordered("k", "1", 1), arrivalNew)
	two := y.come(t, ordered("k", "2", 2), arrivalWaits)
	one.outcome = onefold.DeadLettered
	y.settle(one)
	assert.Equal(t, []*delivery{two}, y.started)
	y.end(one, true)
	y.end(two, true)
	assert.Empty(t, y.lanes.byKey)
}

func TestAnEarlierMessageThatComesLateRunsNext(t *testing.T) {
	y := newYard(10)
	two := y.come(t, ordered("k", "2", 2), arrivalNew)
	three := y.come(t, ordered("k", "3", 3), arrivalWaits)
	one := y.come(t, ordered("k", "1", 1), arrivalWaits)
	y.end(two, true)
	assert.Equal(t, []*delivery{one}, y.started)
	y.end(one, true)
	assert.Equal(t, []*delivery{one, three}, y.started)
}

func TestACopyThatWaitsTakesThePlaceOfTheEarlierMessageThatFollowsIt(t *testing.T) {
	y := newYard(10)
	one := y.come(t, ordered("k", "a", 1), arrivalNew)
	y.come(t, ordered("k", "b", 2), arrivalWaits)
	y.end(one, false)
	later := y.come(t, ordered("k", "a", 3), arrivalWaits) // a copy of the first
	y.come(t, ordered("k", "a", 1), arrivalFollows)
	assert.Equal(t, []*delivery{later}, y.started, "else each would wait for the other")
	copies := y.end(later, false)
	require.Len(t, copies, 1)
	assert.Len(t, y.started, 1, "both are missed, and the second message waits for the first")
}

func TestWhatFindsNoRoomToWaitStaysAwayAndIsWaitedFor(t *testing.T) {
	y := newYard(2)
	one := y.come(t, ordered("k", "1", 1), arrivalNew)
	two := y.come(t, ordered("k", "2", 2), arrivalWaits)
	y.come(t, ordered("k", "3", 3), arrivalCrowds)
	y.end(one, true)
	y.end(two, true)
	y.come(t, ordered("k", "4", 4), arrivalWaits)
	y.come(t, ordered("k", "3", 3), arrivalNew)
}

func TestAMissedMessageThatIsGoneHoldsUpNobody(t *testing.T) {
	y := newYard(10)
	y.end(y.come(t, ordered("k", "1", 1), arrivalNew), false)
	two := y.come(t, ordered("k", "2", 2), arrivalWaits)
	assert.Empty(t, y.overdue(y.now, 10), "it has not been away for long")
	y.now = time.Minute
	over := y.overdue(y.now, 10)
	require.Len(t, over, 1)
	y.looked(over[0], false)
	assert.Empty(t, y.started)
	assert.Empty(t, y.overdue(y.now, 10), "it is looked for again later")
	y.looked(over[0], true)
	assert.Equal(t, []*delivery{two}, y.started)
}

func TestHowLongWhatFindsNoRoomStaysAway(t *testing.T) {
	const ackWait = 30 * time.Second
	for _, c := range []struct {
		what string
		crowd
		want time.Duration
	}{
		{"nothing is known", crowd{before: 5}, time.Second},
		{"those before it are fast", crowd{before: 10, each: time.Millisecond}, minCrowdDelay},
		{"those before it take a while", crowd{before: 100, each: 50 * time.Millisecond}, 5 * time.Second},
		{"they take very long", crowd{before: 100, each: time.Hour}, ackWait},
		{"the one that runs takes longer than others", crowd{before: 1, each: time.Millisecond, so: 3 * time.Second}, 3 * time.Second},
		{"what it waits for is away", crowd{before: 1, each: time.Millisecond, untilDue: 7 * time.Second}, 7 * time.Second},
		{"what it waits for is away for long", crowd{before: 1, untilDue: time.Hour}, ackWait},
	} {
		c.ackWait = ackWait
		assert.Equal(t, c.want, c.delay(), c.what)
	}
}

func TestOneKeyLeavesRoomToWaitForOthers(t *testing.T) {
	y := newYard(8)
	y.come(t, ordered("hot", "1", 1), arrivalNew)
	for q := uint64(2); q < 6; q++ {
		y.come(t, ordered("hot", fmt.Sprint(q), q), arrivalWaits)
	}
	y.come(t, ordered("hot", "6", 6), arrivalCrowds)
	y.come(t, ordered("cold", "7", 7), arrivalNew)
	y.come(t, ordered("cold", "8", 8), arrivalWaits)
}

func TestALongOrderingKeyIsKeptAsADigestThatNoKeyEquals(t *testing.T) {
	long := laneName(string(make([]byte, 1000)))
	assert.Len(t, long, 65)
	assert.NotEqual(t, long, laneName(long))
	assert.Equal(t, "order-7", laneName("order-7"))
}

// history plays random arrivals, failures, copies and ends in one yard, and knows what must hold.
type history struct {
	*yard
	random  *rand.Rand
	ids     int
	seen    map[uint64]bool // seen and not settled
	held    map[uint64]*delivery
	running map[string]*delivery
}

func (h *history) id(sequence uint64) string { return fmt.Sprint(sequence % uint64(h.ids)) }

func (h *history) lane(sequence uint64) string {
	return fmt.Sprint(sequence % uint64(h.ids) % 3) // copies have one lane
}

// step lets one message arrive, or a running one end.
func (h *history) step(t *testing.T) {
	if q := h.random.Uint64N(60) + 1; h.random.IntN(2) == 0 && h.held[q] == nil {
		d := ordered(h.lane(q), h.id(q), q)
		switch a, _ := h.add(d); a {
		case arrivalNew:
			h.started = append(h.started, d)
			fallthrough
		case arrivalWaits, arrivalFollows:
			h.held[q] = d
		}
		h.seen[q] = true
	} else {
		for _, d := range h.running {
			delete(h.running, d.order)
			settled := h.random.IntN(2) == 0
			for _, x := range append(h.end(d, settled), d) {
				delete(h.held, x.msg.Sequence)
				if settled {
					delete(h.seen, x.msg.Sequence)
				}
			}
			break
		}
	}
	h.start(t)
}

// start checks each delivery that has got its turn.
func (h *history) start(t *testing.T) {
	for _, d := range h.started {
		require.Nil(t, h.running[d.order], "two of one key run at once")
		h.running[d.order] = d
		for q := range h.seen {
			same := h.lane(q) == d.order && h.id(q) != d.key.ID
			require.False(t, same && q < d.rank, "%d starts before %d", d.rank, q)
		}
	}
	h.started = nil
}

func TestInAnyHistoryTheOrderHoldsAndEveryMessageGetsItsTurn(t *testing.T) {
	for seed := range uint64(300) {
		h := &history{yard: newYard(8), random: rand.New(rand.NewPCG(seed, 1)), ids: 4 + int(seed%40),
			seen: map[uint64]bool{}, held: map[uint64]*delivery{}, running: map[string]*delivery{}}
		for range 400 {
			h.step(t)
		}
		for round := 0; len(h.seen) > 0; round++ { // all come again, until all are settled
			require.Less(t, round, 1000, "seed %d: %v are never settled", seed, h.seen)
			for q := range h.seen {
				if h.held[q] == nil {
					d := ordered(h.lane(q), h.id(q), q)
					if a, _ := h.add(d); a == arrivalNew {
						h.started = append(h.started, d)
					} else if a == arrivalCrowds {
						continue
					}
					h.held[q] = d
				}
			}
			h.start(t)
			for _, d := range h.running {
				delete(h.running, d.order)
				for _, x := range append(h.end(d, true), d) {
					delete(h.held, x.msg.Sequence)
					delete(h.seen, x.msg.Sequence)
				}
			}
			h.start(t)
		}
		assert.Empty(t, h.lanes.byKey)
		assert.Empty(t, h.byKey)
		assert.Zero(t, h.lanes.waiting)
	}
}
