package consumer

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"golang.org/x/time/rate"

	"github.com/onefold-go/onefold"
	"github.com/stretchr/testify/require"
)

func TestThePrefetchGrowsWithTheRateAndStaysWithinEveryLimit(t *testing.T) {
	base := prefetch{target: 16, concurrency: 8, max: 10_000, ackWait: 30 * time.Second}
	for name, c := range map[string]struct {
		change func(*prefetch)
		want   int
	}{
		"it stays while the rate is not known":            {func(*prefetch) {}, 16},
		"it doubles for fast handlers":                    {func(p *prefetch) { p.rate = 100_000 }, 32},
		"it takes no more than a quarter of AckWait ends": {func(p *prefetch) { p.rate, p.ackWait = 4, time.Second }, 9},
		"it never falls below the workers":                {func(p *prefetch) { p.rate, p.target = 0.001, 8 }, 8},
		"the server's limit holds":                        {func(p *prefetch) { p.rate, p.max = 1e6, 20 }, 20},
		"the server's limit wins over the workers":        {func(p *prefetch) { p.rate, p.max = 1e6, 3 }, 3},
		"large bodies take memory":                        {func(p *prefetch) { p.rate, p.largest = 1e6, 4<<20 }, 8},
		"one message is always asked for":                 {func(p *prefetch) { p.rate, p.largest = 1e6, 1<<30 }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := base
			c.change(&p)
			assert.Equal(t, c.want, p.grown())
		})
	}
}

func TestThePrefetchStartsWithTwoMessagesForEachWorker(t *testing.T) {
	assert.Equal(t, 16, startPrefetch(8, 1000, time.Second).target)
	assert.Equal(t, 5, startPrefetch(8, 5, time.Second).target)
	unlimited := startPrefetch(8, 0, time.Second)
	assert.Equal(t, 16, unlimited.target)
	assert.Equal(t, maxPrefetch, unlimited.max)
	assert.Equal(t, maxPrefetch, startPrefetch(8, 1<<20, time.Second).max)
	assert.Equal(t, 8, unlimited.telling(), "four that end together after a second are not four thousand a second")
	assert.Equal(t, 100, prefetch{target: 400, concurrency: 8}.telling())
	assert.Equal(t, 8, unlimited.shrunk())
	assert.Equal(t, 5, startPrefetch(8, 5, time.Second).shrunk())
}

func TestTheServersLimitsBoundOnePull(t *testing.T) {
	assert.Equal(t, 0, pullLimit(jetstream.ConsumerConfig{MaxAckPending: -1}))
	assert.Equal(t, 100, pullLimit(jetstream.ConsumerConfig{MaxAckPending: 100}))
	assert.Equal(t, 7, pullLimit(jetstream.ConsumerConfig{MaxAckPending: 100, MaxRequestBatch: 7}))
	assert.Equal(t, 7, pullLimit(jetstream.ConsumerConfig{MaxAckPending: -1, MaxRequestBatch: 7}))
	assert.Equal(t, 100, pullLimit(jetstream.ConsumerConfig{MaxAckPending: 100, MaxRequestBatch: 700}))
}

func TestMoreIsAskedForOnceAQuarterOfTheTargetHasEnded(t *testing.T) {
	p := prefetch{target: 100, concurrency: 8}
	for held, want := range map[int]int{0: 100, 75: 25, 76: 0, 100: 0, 120: 0} {
		assert.Equal(t, want, p.missing(0, held, 0), "held %d", held)
	}
	small := prefetch{target: 8, concurrency: 8}
	assert.Equal(t, 1, small.missing(0, 7, 0), "an idle worker is never left waiting")
	assert.Equal(t, 0, small.missing(8, 0, 0))
	assert.Equal(t, 1, prefetch{target: 1, concurrency: 8}.missing(0, 0, 0))
	large := prefetch{target: 1000, concurrency: 8}.sized(1 << 20)
	assert.Equal(t, 32, large.missing(0, 0, 0), "as much as the memory holds")
	assert.Equal(t, 12, large.missing(4, 16, 16<<20), "what is on its way counts")
	assert.Equal(t, 0, large.missing(0, 40, 40<<20))
	assert.Equal(t, 1, prefetch{target: 16, concurrency: 8}.sized(64<<20).missing(0, 0, 0), "a message larger than the bound is handled alone")
	assert.InDelta(t, 1<<20, large.sized(1).largest, 1<<13, "a large message is forgotten slowly")
	assert.InDelta(t, 100, smoothed(0, 100), 0)
	assert.InDelta(t, 125, smoothed(100, 200), 0)
}

func TestTheHeartbeatOwesWhatTheStageAndTheTimesSay(t *testing.T) {
	r := heartbeatRule{ackWait: 12 * time.Second, lease: 6 * time.Second}
	for name, c := range map[string]struct {
		stage                              stage
		now, received, progressed, renewed time.Duration
		want                               duty
	}{
		"a queued one is left alone":             {stageQueued, 5 * time.Second, 0, 0, 0, duty{}},
		"half of AckWait gives it back":          {stageQueued, 6 * time.Second, 0, 0, 0, duty{giveBack: true}},
		"so it does while the store is asked":    {stageClaiming, 6 * time.Second, 0, 0, 0, duty{giveBack: true}},
		"what was just taken is left alone":      {stageTaken, time.Hour, 0, 0, 0, duty{}},
		"a fresh run owes nothing":               {stageRunning, time.Second, 0, 0, 0, duty{}},
		"a third of the lease renews":            {stageRunning, 2 * time.Second, 0, 0, 0, duty{renew: true}},
		"a third of AckWait tells the server":    {stageRunning, 4 * time.Second, 0, 0, 3 * time.Second, duty{progress: true}},
		"both":                                   {stageHandled, 4 * time.Second, 0, 0, 0, duty{progress: true, renew: true}},
		"the last signal counts":                 {stageHandled, 40 * time.Second, 0, 39 * time.Second, 39 * time.Second, duty{}},
		"a committed dead letter has no claim":   {stageSettling, 4 * time.Second, 0, 0, 0, duty{progress: true}},
		"what has ended owes nothing":            {stageEnded, time.Hour, 0, 0, 0, duty{}},
		"a run is never given back, however old": {stageRunning, time.Hour, 0, time.Hour, time.Hour, duty{}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, dutyOf(c.stage, c.now, c.received, c.progressed, c.renewed, r))
		})
	}
}

func TestTheHeartbeatFitsIntoAThirdOfEitherPatience(t *testing.T) {
	for _, r := range []heartbeatRule{{minAckWait, minLease}, {30 * time.Second, 30 * time.Second}, {time.Hour, minLease}, {minAckWait, time.Hour}} {
		assert.Less(t, r.tick(), min(r.ackWait, r.lease)/3)
		assert.Less(t, giveBackDelay(r.ackWait), r.ackWait/2)
	}
	r := heartbeatRule{ackWait: 10 * time.Second}
	assert.False(t, stale(8*time.Second, 0, r))
	assert.True(t, stale(9*time.Second, 0, r), "before the server may have handed it to another")
}

func TestAFloorCoversWhatWasStoredNoLaterThanItsMessage(t *testing.T) {
	at := time.Unix(1000, 0)
	f := floor{At: sample{Sequence: 10, Time: at.UnixNano()}}
	assert.True(t, f.covers("a", 10, at))
	assert.True(t, f.covers("a", 1, at.Add(-time.Hour)))
	assert.False(t, f.covers("a", 11, at))
	assert.False(t, f.covers("a", 5, at.Add(time.Nanosecond)), "a position that is used again by a stream that lost its tail")
	none := floor{}
	assert.False(t, none.covers("a", 1, at))
}

func TestAFloorHoldsForOneLifeOfTheStreamAndNeverAboveItsEnd(t *testing.T) {
	f := floor{Created: 5, From: 2, At: sample{Sequence: 10, Time: 100}, Seen: 20}
	assert.Equal(t, f, f.fit(5, "", 9, 30))
	assert.Equal(t, floor{Created: 6, From: 9}, f.fit(6, "", 9, 30))
	assert.Equal(t, floor{Created: 5, From: 2, At: sample{Sequence: 7, Time: 100}, Seen: 7}, f.fit(5, "", 9, 7))
}

func TestAFloorCoversNothingBelowThePositionAtWhichTheDurableWasMet(t *testing.T) {
	f := floor{From: 4, At: sample{Sequence: 10, Time: 100}}
	assert.False(t, f.covers("a", 4, time.Unix(0, 1)), "somebody else settled it")
	assert.True(t, f.covers("a", 5, time.Unix(0, 1)))
}

func TestAFloorAnswersForTheSubjectsThatItsFilterSelected(t *testing.T) {
	stored := time.Unix(0, 50)
	narrow := floor{Created: 5, Filter: filterOf([]string{"in.b", "in.a"}), At: sample{Sequence: 10, Time: 100}, Seen: 10}
	wide := narrow.fit(5, filterOf([]string{"in.>"}), 0, 30)
	assert.Zero(t, wide.At, "what the narrow filter left out was not seen")
	assert.True(t, wide.covers("in.a", 7, stored))
	assert.True(t, wide.covers("in.b", 7, stored))
	assert.False(t, wide.covers("in.c", 7, stored))
	assert.Equal(t, narrow, wide.fit(5, narrow.Filter, 20, 30), "back under the old filter")
	for i := range 100 {
		wide.At = sample{Sequence: 1, Time: 1}
		wide = wide.fit(5, strconv.Itoa(i), 0, 30)
	}
	assert.Len(t, wide.Past, maxPastFloors)
}

func TestAFilterSelectsAsTheServerDoes(t *testing.T) {
	for _, c := range []struct {
		filter, subject string
		want            bool
	}{
		{"", "a.b", true}, {"a.b", "a.b", true}, {"a.b", "a", false}, {"a", "a.b", false}, {"a.*", "a.b", true},
		{"a.*", "a.b.c", false}, {"a.>", "a.b.c", true}, {"a.>", "a", false}, {">", "a", true}, {"*", "a", true},
		{"x a.*.c", "a.b.c", true}, {"x a.*.c", "a.b.d", false},
	} {
		assert.Equal(t, c.want, selects(c.filter, c.subject), "%q selects %q", c.filter, c.subject)
	}
}

func TestAFloorMovesToTheHighestSampleBelowTheServersFloorAndNeverBack(t *testing.T) {
	seen := []sample{{Sequence: 12, Time: 120}, {Sequence: 15, Time: 150}, {Sequence: 18, Time: 180}}
	f := floor{At: sample{Sequence: 10, Time: 100}}
	assert.Equal(t, floor{At: sample{Sequence: 15, Time: 150}, Seen: 18}, f.advance(17, seen))
	assert.Equal(t, sample{Sequence: 10, Time: 100}, f.advance(11, seen).At)
	assert.Equal(t, sample{Sequence: 18, Time: 180}, f.advance(99, seen).At)
	assert.Equal(t, sample{Sequence: 50, Time: 1}, floor{At: sample{Sequence: 50, Time: 1}}.advance(99, seen).At)
	assert.Equal(t, f.At, f.advance(99, []sample{{Sequence: 12, Time: 90}}).At, "the stored time does not fall")
}

func TestSamplesAreKeptUntilTheFloorHasPassedThem(t *testing.T) {
	f := floor{At: sample{Sequence: 5}}
	s := keepSamples(nil, sample{Sequence: 5}, f)
	assert.Empty(t, s)
	s = keepSamples(s, sample{Sequence: 7}, f)
	s = keepSamples(s, sample{Sequence: 7}, f)
	s = keepSamples(s, sample{Sequence: 9}, f)
	assert.Equal(t, []sample{{Sequence: 7}, {Sequence: 9}}, s)
	f.At.Sequence = 7
	assert.Equal(t, []sample{{Sequence: 9}}, keepSamples(s, sample{Sequence: 9}, f))
	for i := range uint64(1000) {
		s = keepSamples(s, sample{Sequence: 10 + i}, f)
	}
	assert.Len(t, s, maxSamples)
	assert.EqualValues(t, 1009, s[len(s)-1].Sequence)
}

func TestAFloorComesBackFromItsStoredForm(t *testing.T) {
	f := floor{Created: 1, At: sample{Sequence: 2, Time: 3}, Seen: 4}
	got, err := decodeFloor(f.encode())
	require.NoError(t, err)
	assert.Equal(t, f, got)
	got, err = decodeFloor(nil)
	require.NoError(t, err)
	assert.Zero(t, got)
	_, err = decodeFloor([]byte("{"))
	require.Error(t, err)
}

func TestMessagesThatStayAwayLeaveSlotsForOthers(t *testing.T) {
	for _, c := range []struct {
		what string
		slots
		wanted, target int
	}{
		{"no limit", slots{delayed: 1_000_000}, 500, 500},
		{"nothing stays away", slots{max: 100}, 500, 100},
		{"a few do", slots{max: 100, delayed: 10}, 500, 90},
		{"few are wanted", slots{max: 100, delayed: 10}, 16, 16},
		{"what only waits holds slots, too", slots{max: 100, delayed: 10, resting: 30}, 500, 60},
		{"the share is used", slots{max: 100, delayed: 50}, 500, 50},
		{"more than the share: half of what is free", slots{max: 100, delayed: 60}, 500, 20},
		{"almost all", slots{max: 100, delayed: 98}, 500, 1},
		{"all: what comes again still needs a pull", slots{max: 100, delayed: 100}, 500, 1},
		{"the limit was lowered", slots{max: 100, delayed: 200}, 500, 1},
		{"a tiny limit", slots{max: 1, delayed: 1}, 2, 1},
	} {
		assert.Equal(t, c.target, c.slots.target(c.wanted), c.what)
	}
}

func TestARateLimitBoundsWhatIsAskedFor(t *testing.T) {
	assert.Equal(t, 0, rateAllowance(1, rate.Inf, time.Minute), "no bound")
	assert.Equal(t, 1, rateAllowance(0, 0, time.Minute), "a message at least, for when the limit is raised")
	assert.Equal(t, 1, rateAllowance(-5, 0.01, time.Minute))
	assert.Equal(t, 160, rateAllowance(10, 10, time.Minute), "the tokens there are, and those of a quarter of AckWait")
	assert.Equal(t, maxPrefetch, rateAllowance(0, 1e9, time.Hour))
	p := startPrefetch(8, 1000, time.Minute)
	p.allowance = 3
	assert.Equal(t, 2, p.missing(0, 1, 0))
}

func TestWhatMayHaveToWaitForItsTurnIsAskedForAsFarAsThereIsRoom(t *testing.T) {
	p := startPrefetch(8, 1000, time.Minute)
	p.target, p.waitLimit = 500, 100
	assert.Equal(t, 100, p.missing(0, 0, 0))
	p.waiting = 60
	assert.Equal(t, 10, p.missing(30, 5, 0))
	p.waiting = 100
	assert.Equal(t, 3, p.missing(0, 5, 0), "idle workers ask")
	assert.Equal(t, 0, p.missing(3, 5, 0))
}

func TestAStoreCountsAsUnrelayedOnceItsRowsHaveWaitedForNobody(t *testing.T) {
	const within = time.Minute
	waits := onefold.Stats{Waiting: 1, OldestWaiting: 2 * within, LastFeed: -1}
	for _, c := range []struct {
		what   string
		up     time.Duration
		change func(*onefold.Stats)
		want   bool
	}{
		{"no relay ever asked", within, func(*onefold.Stats) {}, true},
		{"the relay is gone", within, func(s *onefold.Stats) { s.LastFeed = within }, true},
		{"the relay may still start", within - 1, func(*onefold.Stats) {}, false},
		{"the relay asks", within, func(s *onefold.Stats) { s.LastFeed = within - 1 }, false},
		{"nothing waits", within, func(s *onefold.Stats) { s.Waiting = 0 }, false},
		{"it has not waited for long", within, func(s *onefold.Stats) { s.OldestWaiting = within - 1 }, false},
	} {
		s := waits
		c.change(&s)
		assert.Equal(t, c.want, unrelayed(s, c.up, within), c.what)
	}
}

func TestTheStateNamesTheReasonThatLastsLongest(t *testing.T) {
	assert.Equal(t, StateRunning, why(0).state())
	assert.Equal(t, StateOrdering, whyOrder.state())
	assert.Equal(t, StateUnrelayed, (whyOrder | whyRelay).state())
	assert.Equal(t, StateWaiting, (whyStore | whyRelay).state())
	assert.Equal(t, StatePaused, (whyPause | whyStore | whyRelay | whyOrder).state())
	assert.False(t, (whyStore | whyOrder).refuses(), "what is held goes on")
	assert.True(t, whyPause.refuses() && whyRelay.refuses())
}
