package consumer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/dedupe"
)

// bug is a handler that gives up until it is mended, and notes what it runs.
type bug struct {
	mu     sync.Mutex
	mended bool
	runs   map[onefold.Key]int
	seen   []onefold.Message
}

func (b *bug) handle(_ context.Context, m *onefold.Message, fx *onefold.Effects) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runs == nil {
		b.runs = map[onefold.Key]int{}
	}
	b.runs[fx.Key()]++
	b.seen = append(b.seen, *m)
	if !b.mended {
		return onefold.Permanent(errors.New("no such account"))
	}
	return nil
}

func (b *bug) mend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mended = true
}

// key is of the rig's consumer.
func key(id string, gen uint32) onefold.Key { return onefold.Key{Scope: "IN/work", ID: id, Gen: gen} }

// letters reads the rig's dead letters.
func (r *rig) letters(clock onefold.Clock) *consumer.DeadLetters {
	r.t.Helper()
	d, err := consumer.NewDeadLetters(r.js, consumer.DeadLettersConfig{Clock: clock})
	require.NoError(r.t, err)
	return d
}

// sel freezes a filter.
func (r *rig) sel(f consumer.LetterFilter) *consumer.Selection {
	r.t.Helper()
	s, err := r.letters(onefold.Clock{}).Select(r.ctx, f)
	require.NoError(r.t, err)
	return s
}

// all redrives a selection and wants every letter to be redriven.
func (r *rig) all(s *consumer.Selection, o consumer.RedriveOptions) (done []consumer.Redriven) {
	r.t.Helper()
	for one, err := range s.Redrive(r.ctx, o) {
		require.NoError(r.t, err)
		done = append(done, one)
	}
	return done
}

func TestScenario_J08_ARedriveHasAFreshTransportIDAndKeepsTheMessagesOwn(t *testing.T) {
	r, b := newRig(t), &bug{}
	r.relay()
	r.start(r.config(b.handle))
	r.send(&nats.Msg{Subject: "in.a", Data: []byte("x"), Header: nats.Header{"Nats-Msg-Id": {"one"}, "Trace": {"a", "b"}}})
	r.awaitCount("acked", 1)
	b.mend()

	// The duplicate window is two minutes: the transport ID of the first generation is still known.
	selection := r.sel(consumer.LetterFilter{})
	done := r.all(selection, consumer.RedriveOptions{})
	require.Len(t, done, 1)
	assert.Equal(t, key("one", 1), done[0].Key)
	assert.EqualValues(t, 2, done[0].Sequence)
	assert.False(t, done[0].Duplicate)
	r.awaitCount("acked", 2)

	again := r.all(selection, consumer.RedriveOptions{})
	require.Len(t, again, 1)
	assert.True(t, again[0].Duplicate, "the server drops it within its window")
	assert.EqualValues(t, 2, again[0].Sequence)

	// Outside the window the same message gets in.
	m, err := r.js.Stream(r.ctx, "IN")
	require.NoError(t, err)
	copied, err := m.GetMsg(r.ctx, 2)
	require.NoError(t, err)
	copied.Header.Set("Nats-Msg-Id", "outside")
	r.send(&nats.Msg{Subject: copied.Subject, Header: copied.Header, Data: copied.Data})
	r.awaitCount("duplicate", 1)
	r.settled()
	assert.Equal(t, map[onefold.Key]int{key("one", 0): 1, key("one", 1): 1}, b.runs)
	require.Len(t, b.seen, 2)
	for _, name := range []string{"Nats-Msg-Id", "Trace"} {
		assert.Equal(t, b.seen[0].Header[name], b.seen[1].Header[name], "the handler sees the message as it was")
	}
}

func TestScenario_D16_ALetterOlderThanItsRetentionIsRedrivenOnDemandOnly(t *testing.T) {
	r, b := newRig(t), &bug{}
	r.relay()
	c := r.config(b.handle)
	c.Retention = time.Hour
	r.start(c)
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	b.mend()
	in := func(d time.Duration) *consumer.DeadLetters {
		return r.letters(onefold.Clock{Wall: func() time.Time { return time.Now().Add(d) }})
	}
	letter, err := in(0).Get(r.ctx, 1)
	require.NoError(t, err)
	assert.Equal(t, time.Hour, letter.Retention)

	for _, dry := range []bool{true, false} {
		_, err = in(2*time.Hour).Redrive(r.ctx, letter, consumer.RedriveOptions{DryRun: dry})
		require.ErrorIs(t, err, consumer.ErrLetterTooOld)
		require.ErrorContains(t, err, "its retention 1h0m0s")
		require.ErrorContains(t, err, "AllowOld")
	}
	old := *letter
	old.Time = old.Time.Add(-2 * time.Hour)
	_, err = in(-48*time.Hour).Redrive(r.ctx, &old, consumer.RedriveOptions{})
	require.ErrorIs(t, err, consumer.ErrLetterTooOld, "a machine whose clock was set back goes by the server's")
	assert.Equal(t, 1, r.stored("IN"))
	_, err = in(2*time.Hour).Redrive(r.ctx, letter, consumer.RedriveOptions{AllowOld: true})
	require.NoError(t, err)
	r.awaitCount("acked", 2)
	done, err := in(30*time.Minute).Redrive(r.ctx, letter, consumer.RedriveOptions{})
	require.NoError(t, err, "young enough for the record of the redrive to be there")
	assert.True(t, done.Duplicate)
	assert.Equal(t, map[onefold.Key]int{key("one", 0): 1, key("one", 1): 1}, b.runs)
}

func TestScenario_D25_ARedriveTouchesOnlyWhatHasFailed(t *testing.T) {
	r, g := newRig(t), newGate()
	var mu sync.Mutex
	runs, mended := map[onefold.Key]int{}, false
	r.relay()
	r.start(r.config(func(ctx context.Context, m *onefold.Message, fx *onefold.Effects) error {
		mu.Lock()
		runs[fx.Key()]++
		good := mended
		mu.Unlock()
		switch {
		case string(m.Data) == "slow":
			return g.pass(ctx)
		case string(m.Data) == "bad" && !good:
			return onefold.Permanent(errors.New("no"))
		}
		return nil
	}))
	r.publish("done", "good")
	r.publish("failed", "bad")
	r.publish("running", "slow")
	r.await1(g.entered)
	r.awaitCount("acked", 2)
	mu.Lock()
	mended = true
	mu.Unlock()
	selection := r.sel(consumer.LetterFilter{})
	assert.Len(t, r.all(selection, consumer.RedriveOptions{}), 1)
	r.awaitCount("acked", 3)
	close(g.open)
	r.awaitCount("acked", 4)

	// What the redrive has mended has not failed any more, although its letter is still there.
	done := r.all(selection, consumer.RedriveOptions{})
	require.Len(t, done, 1)
	assert.True(t, done[0].Duplicate)
	r.settled()
	assert.Equal(t, map[onefold.Key]int{key("done", 0): 1, key("failed", 0): 1, key("failed", 1): 1, key("running", 0): 1}, runs)
}

func TestOnlyTheConsumerThatGaveUpRunsARedrivenMessage(t *testing.T) {
	r, b := newRig(t), &bug{}
	other := &bug{mended: true}
	r.relay()
	r.start(r.config(b.handle))
	c := r.config(other.handle)
	c.Name, c.ID = "other", dedupe.PositionID // it would not know the message again
	r.start(c)
	r.publish("one", "x")
	r.awaitCount("acked", 2)
	b.mend()
	r.all(r.sel(consumer.LetterFilter{}), consumer.RedriveOptions{})
	r.awaitCount("acked", 3)
	r.awaitCount("duplicate", 1)
	assert.Equal(t, map[onefold.Key]int{key("one", 0): 1, key("one", 1): 1}, b.runs)
	assert.Len(t, other.runs, 1)
	assert.Equal(t, "other", r.events("duplicate")[0].event.Consumer)
}

func TestAMessageThatFailsAgainKeepsItsHistory(t *testing.T) {
	r, b := newRig(t), &bug{}
	r.relay()
	r.start(r.config(b.handle))
	r.publish("one", "x")
	for n := range 3 {
		r.awaitCount("acked", n+1)
		selection := r.sel(consumer.LetterFilter{})
		done := r.all(selection, consumer.RedriveOptions{})
		require.Len(t, done, n+1, "old letters are there")
		for i, one := range done {
			assert.Equal(t, i < n, one.Duplicate, "and redriven once")
		}
	}
	r.awaitCount("acked", 4)
	last, err := r.letters(onefold.Clock{}).Get(r.ctx, 4)
	require.NoError(t, err)
	assert.Equal(t, key("one", 3), last.Key)
	assert.EqualValues(t, 4, last.Message.Sequence)
	require.Len(t, last.History, 3)
	for gen, past := range last.History {
		assert.EqualValues(t, []any{uint32(gen), uint64(gen + 1), "no such account", onefold.ClassPermanent, 1},
			[]any{past.Gen, past.Sequence, past.Reason, past.Class, past.Attempts})
	}
	assert.Equal(t, onefold.Header{onefold.HeaderID: {"one"}}, last.Message.Header)
	assert.Len(t, b.runs, 4)
}

func TestAMessageWithoutAnIDIsRedrivenUnderTheIDThatIsFoundNow(t *testing.T) {
	r, b := newRig(t), &bug{mended: true}
	r.relay()
	c := r.config(b.handle)
	c.ID = dedupe.HeaderID("Order")
	w := r.start(c)
	r.send(&nats.Msg{Subject: "in.a", Data: []byte("x"), Header: nats.Header{"Nats-Msg-Id": {"t1"}}})
	r.send(&nats.Msg{Subject: "in.a", Data: []byte("y")})
	r.awaitCount("acked", 2)
	w.end()
	assert.Empty(t, b.runs)

	c.ID = dedupe.FirstOf(dedupe.DefaultID, dedupe.PositionID)
	r.start(c)
	selection := r.sel(consumer.LetterFilter{Class: onefold.ClassMissingID})
	done := r.all(selection, consumer.RedriveOptions{})
	require.Len(t, done, 2)
	slices.SortFunc(done, func(a, b consumer.Redriven) int {
		return cmp.Compare(string(a.Letter.Message.Data), string(b.Letter.Message.Data))
	})
	assert.True(t, done[0].Key.IsZero(), "nobody knows it yet")
	r.awaitCount("acked", 4)
	second := done[1].Letter.Message // y: letters come in any order
	position, err := dedupe.PositionID(&second)
	require.NoError(t, err)
	want := map[onefold.Key]int{key("t1", 0): 1, key(position, 0): 1}
	assert.Equal(t, want, b.runs)

	// A second redrive, outside the duplicate window, is a duplicate whatever the source makes the ID of.
	r.again("IN", 3, 4)
	r.awaitCount("duplicate", 2)
	assert.Equal(t, want, b.runs)
}

// again publishes messages of a stream once more, as if its duplicate window were over.
func (r *rig) again(stream string, sequences ...uint64) {
	r.t.Helper()
	s, err := r.js.Stream(r.ctx, stream)
	require.NoError(r.t, err)
	for _, n := range sequences {
		m, err := s.GetMsg(r.ctx, n)
		require.NoError(r.t, err)
		m.Header.Set("Nats-Msg-Id", fmt.Sprint("again ", n))
		r.send(&nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
	}
}

func TestRedriveHeadersThatAreNotOursMakeADeadLetter(t *testing.T) {
	r, b := newRig(t), &bug{mended: true}
	r.relay()
	r.start(r.config(b.handle))
	forged := func(h nats.Header) {
		h[consumer.HeaderRedriveFor] = []string{"IN/work"}
		h[onefold.HeaderID] = []string{"one"}
		r.send(&nats.Msg{Subject: "in.a", Data: []byte("x"), Header: h})
	}
	forged(nats.Header{})
	forged(nats.Header{consumer.HeaderRedriveOrigin: {"1/1"}, consumer.HeaderRedriveScope: {"IN/other"}, consumer.HeaderRedriveID: {"one"}, consumer.HeaderRedriveGen: {"1"}})
	r.awaitCount("dead", 2)
	r.awaitCount("acked", 2)
	assert.Empty(t, b.runs)
	says := map[uint64]string{1: consumer.HeaderRedriveOrigin, 2: "this consumer's scope"}
	for l, err := range r.sel(consumer.LetterFilter{}).Letters(r.ctx) {
		require.NoError(t, err)
		assert.Contains(t, l.Reason, says[l.Message.Sequence])
		assert.Equal(t, onefold.ClassPermanent, l.Class)
	}
	assert.Len(t, r.all(r.sel(consumer.LetterFilter{}), consumer.RedriveOptions{}), 2)
	r.awaitCount("acked", 3)
	r.awaitDone(4)
	assert.Equal(t, map[onefold.Key]int{key("one", 0): 1}, b.runs, "they are messages like any other, with one ID")
}

// awaitDone waits for n deliveries that were acked in one way or another.
func (r *rig) awaitDone(n int) {
	r.t.Helper()
	r.await("answers", func(c map[string]int) bool { return c["acked"]+c["duplicate"] >= n })
}

func TestWhatARedriveCannotDoIsAnErrorOfItsLetter(t *testing.T) {
	r, b := newRig(t), &bug{}
	r.relay()
	w := r.start(r.config(b.handle))
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	d := r.letters(onefold.Clock{})
	letter, err := d.Get(r.ctx, 1)
	require.NoError(t, err)
	redrive := func() error {
		done, err := d.Redrive(r.ctx, letter, consumer.RedriveOptions{DryRun: true})
		assert.Zero(t, done.Sequence)
		return err
	}
	require.NoError(t, redrive())

	c, err := r.js.Consumer(r.ctx, "IN", "work")
	require.NoError(t, err)
	narrow := c.CachedInfo().Config
	narrow.FilterSubject = "in.b"
	_, err = r.js.UpdateConsumer(r.ctx, "IN", narrow)
	require.NoError(t, err)
	err = redrive()
	require.ErrorIs(t, err, onefold.ErrInvalid)
	require.ErrorContains(t, err, `selects "in.b"`)
	require.NoError(t, r.js.DeleteConsumer(r.ctx, "IN", "work"))
	err = redrive()
	require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
	require.ErrorContains(t, err, "dead letter 1 of stream ONEFOLD_DEAD, of consumer IN/work: nobody would run it")
	require.NoError(t, r.js.DeleteStream(r.ctx, "IN"))
	require.ErrorIs(t, redrive(), jetstream.ErrStreamNotFound)

	_, err = d.Redrive(r.ctx, nil, consumer.RedriveOptions{})
	require.ErrorIs(t, err, onefold.ErrInvalid)
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1)} {
		for _, err := range r.sel(consumer.LetterFilter{}).Redrive(r.ctx, consumer.RedriveOptions{PerSecond: rate}) {
			require.ErrorIs(t, err, onefold.ErrInvalid)
		}
	}
}
