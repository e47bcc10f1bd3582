package consumer_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/internal/natstest"
	"github.com/onefold-go/onefold/store/memstore"
)

func TestARestartOfTheServerEndsNothingAndLosesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var runs atomic.Int64
	c := r.config(counting(&runs))
	c.AckWait = time.Second // what is on its way when the server ends comes again after it
	w := r.start(c)
	r.publishMany(100, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	r.awaitCount("acked", 20)
	r.srv.Restart(t)
	require.Eventually(t, func() bool {
		_, err := r.js.Publish(r.ctx, "in.a", []byte("x"), jetstream.WithMsgID("after"))
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	r.settled()
	w.end()
	assert.EqualValues(t, 101, runs.Load())
	assert.Equal(t, 101, r.count("acked"))
}

func TestAClosedConnectionEndsRun(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		r := newRig(t)
		nc, js := r.srv.Connect(t)
		w := r.startOn(js, r.st, r.config(nothing))
		r.publish("one", "x")
		r.awaitCount("acked", 1)
		nc.Close()
		require.ErrorContains(t, w.err(), "connection closed")
	})
	t.Run("while everything runs", func(t *testing.T) {
		r, g := newRig(t), newGate()
		nc, js := r.srv.Connect(t)
		c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) })
		c.Concurrency, c.MaxAckPending = 1, 1
		w := r.startOn(js, r.st, c)
		r.publish("one", "x")
		r.await1(g.entered)
		nc.Close()
		close(g.open)
		require.ErrorContains(t, w.err(), "connection closed")
		assert.Zero(t, r.count("acked"))
		assert.Equal(t, 1, r.count("dropped"), "an answer that could not be sent is told of")
	})
}

func TestAServerThatIsAwayAtTheStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish("one", "x")
	r.srv.Stop()
	require.Eventually(t, func() bool { return !r.nc.IsConnected() }, 10*time.Second, time.Millisecond)
	w := r.start(r.config(nothing))
	r.awaitCount("state waiting to start", 1)
	require.NoError(t, r.srv.StartAgain())
	r.awaitCount("acked", 1)
	w.end()
	var states []string
	for _, state := range []string{"waiting to start", "running", "draining", "stopped"} {
		e := r.events("state " + state)[0].state
		states = append(states, e.From+" > "+e.To)
	}
	assert.Equal(t, []string{"new > waiting to start", "waiting to start > running", "running > draining", "draining > stopped"}, states)
}

func TestAStoreThatIsAwayAtTheStartIsWaitedFor(t *testing.T) {
	r := newRig(t)
	var calls atomic.Int64
	st := &away{Store: r.st, calls: &calls}
	w := r.startOn(r.js, st, r.config(nothing))
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	assert.Greater(t, calls.Load(), int64(3))
}

// away does not answer the first three reads.
type away struct {
	onefold.Store
	calls *atomic.Int64
}

func (a *away) Read(ctx context.Context, table, key string) (onefold.Value, error) {
	if a.calls.Add(1) <= 3 {
		return onefold.Value{}, onefold.ErrUnavailable
	}
	return a.Store.Read(ctx, table, key)
}

func TestAMissingStreamIsAnErrorThatSaysWhatToDo(t *testing.T) {
	r := newRig(t)
	c := r.config(nothing)
	c.Stream = "NONE"
	err := r.start(c).err()
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	assert.ErrorContains(t, err, "create it first")
	assert.ErrorIs(t, r.events("state stopped")[0].state.Err, jetstream.ErrStreamNotFound)
}

func TestTwoLiveConsumersOfOneScopeAndStoreAreRefused(t *testing.T) {
	r := newRig(t)
	w := r.start(r.config(nothing))
	r.awaitCount("state running", 1)
	second := r.config(nothing)
	second.Name, second.Scope = "other", "IN/work"
	err := r.start(second).err()
	require.ErrorIs(t, err, consumer.ErrScopeInUse)
	assert.ErrorContains(t, err, "IN/work")
	sameDurable := r.config(nothing)
	sameDurable.Scope = "another"
	err = r.start(sameDurable).err()
	require.ErrorIs(t, err, consumer.ErrScopeInUse, "each would run what the other has done")
	assert.ErrorContains(t, err, "durable IN/work")
	w.end()
	w = r.start(second) // the scope is free again
	r.awaitCount("state running", 2)
	w.end()
}

func TestAStoreTooSmallForADeadLetterIsRefusedAtTheStart(t *testing.T) {
	r := newRig(t)
	r.data.Crash()
	r.open(&memstore.Options{MaxEntry: 1 << 20})
	err := r.start(r.config(nothing)).err()
	require.ErrorIs(t, err, onefold.ErrInvalid)
	assert.ErrorContains(t, err, "MaxEntry")
}

func TestDeadLettersNeedAStreamThatKeepsThem(t *testing.T) {
	t.Run("they may not go into the consumed stream", func(t *testing.T) {
		r := newRig(t)
		c := r.config(nothing)
		c.DeadLetterSubject = "in.dead"
		require.ErrorContains(t, r.start(c).err(), "DeadLetterSubject")
	})
	t.Run("an interest stream needs a consumer", func(t *testing.T) {
		r := newRig(t)
		r.stream(jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead"}, Retention: jetstream.InterestPolicy})
		c := r.config(nothing)
		c.DeadLetterSubject = "dead"
		require.ErrorContains(t, r.start(c).err(), "would vanish")
	})
	t.Run("a stream without acks tells nothing", func(t *testing.T) {
		r := newRig(t)
		r.stream(jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead"}, NoAck: true})
		c := r.config(nothing)
		c.DeadLetterSubject = "dead"
		require.ErrorContains(t, r.start(c).err(), "NoAck")
	})
	t.Run("a stream of that name for other subjects", func(t *testing.T) {
		r := newRig(t)
		r.stream(jetstream.StreamConfig{Name: "ONEFOLD_DEAD", Subjects: []string{"other"}})
		require.ErrorContains(t, r.start(r.config(nothing)).err(), "Config.DeadLetterStream")
	})
	t.Run("a subject of its own gets the default stream", func(t *testing.T) {
		r := newRig(t)
		c := r.config(nothing)
		c.DeadLetterSubject, c.DeadLetterStream = "graveyard", "GRAVES"
		w := r.start(c)
		r.awaitCount("state running", 1)
		w.end()
		name, err := r.js.StreamNameBySubject(r.ctx, "graveyard")
		require.NoError(t, err)
		assert.Equal(t, "GRAVES", name)
	})
}

func TestAnAdoptedConsumerKeepsWhatIsNotOursToDecide(t *testing.T) {
	r := newRig(t)
	_, err := r.js.CreateConsumer(r.ctx, "IN", jetstream.ConsumerConfig{
		Durable: "work", Description: "made by hand", Metadata: map[string]string{"team": "billing"}, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: 77 * time.Second, MaxAckPending: -1, MaxDeliver: 9, BackOff: []time.Duration{77 * time.Second, 80 * time.Second},
		FilterSubject: "in.a", MaxRequestBatch: 3,
	})
	require.NoError(t, err)
	c := r.config(nothing)
	c.AckWait, c.MaxAckPending = 0, 0
	w := r.start(c)
	r.publishMany(20, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	r.awaitCount("acked", 20)
	w.end()
	got := r.info().Config
	assert.Equal(t, "made by hand", got.Description)
	assert.Equal(t, "billing", got.Metadata["team"])
	assert.Equal(t, 77*time.Second, got.AckWait)
	assert.Equal(t, -1, got.MaxAckPending)
	assert.Equal(t, "in.a", got.FilterSubject)
	assert.Equal(t, -1, got.MaxDeliver)
	assert.Empty(t, got.BackOff)
}

func TestAConsumerThatCannotCarryTheGuaranteeIsRefused(t *testing.T) {
	base := jetstream.ConsumerConfig{Durable: "work", AckPolicy: jetstream.AckExplicitPolicy}
	for name, c := range map[string]struct {
		change func(*jetstream.ConsumerConfig)
		want   string
	}{
		"no acks":   {func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckNonePolicy }, "AckPolicy"},
		"ack all":   {func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckAllPolicy }, "AckPolicy"},
		"ephemeral": {func(c *jetstream.ConsumerConfig) { c.Durable, c.Name = "", "work" }, "ephemeral"},
		"priority groups": {func(c *jetstream.ConsumerConfig) {
			c.PriorityPolicy, c.PriorityGroups = jetstream.PriorityPolicyOverflow, []string{"g"}
		}, "priority groups"},
		"impatient server": {func(c *jetstream.ConsumerConfig) { c.AckWait = 50 * time.Millisecond }, "AckWait"},
		"short pulls":      {func(c *jetstream.ConsumerConfig) { c.MaxRequestExpires = time.Second }, "MaxRequestExpires"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			had := base
			c.change(&had)
			_, err := r.js.CreateConsumer(r.ctx, "IN", had)
			require.NoError(t, err)
			ours := r.config(nothing)
			ours.AckWait = 0
			err = r.start(ours).err()
			require.ErrorIs(t, err, onefold.ErrInvalid)
			assert.ErrorContains(t, err, c.want)
		})
	}
	t.Run("push", func(t *testing.T) {
		r := newRig(t)
		old, err := r.nc.JetStream()
		require.NoError(t, err)
		_, err = old.AddConsumer("IN", &nats.ConsumerConfig{Durable: "work", AckPolicy: nats.AckExplicitPolicy, DeliverSubject: "push"})
		require.NoError(t, err)
		err = r.start(r.config(nothing)).err()
		require.ErrorIs(t, err, onefold.ErrInvalid)
		assert.ErrorContains(t, err, "push consumer")
	})
}

func TestASmallServerLimitIsObeyed(t *testing.T) {
	r := newRig(t)
	srv := natstest.Start(t, natstest.Options{MaxPayload: 4096})
	_, js := srv.Connect(t)
	r.js = js
	r.stream(jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	w := r.start(r.config(func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		fx.Publish("out.a", make([]byte, 4096))
		return nil
	}))
	relay := r.relay()
	r.publish("one", string(make([]byte, 3000)))
	r.awaitCount("acked", 1)
	w.end()
	relay.end()
	assert.Equal(t, 1, r.count("dead"))
}
