package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/outbox"
)

func TestScenario_O29_ARestoredOldCopyIsRefusedByNameAndIfWantedSendsAgainUnderTheSameIDs(t *testing.T) {
	r, dir := newRig(t), t.TempDir()
	r.output()
	send := r.config(func(_ context.Context, m *onefold.Message, fx *onefold.Effects) error {
		fx.Publish("out.a", m.Data)
		return nil
	})
	send.RelayWithin = -1
	relay := func(st onefold.Store) *running {
		x, err := outbox.NewRelay(st, outbox.Config{JetStream: r.js, Observer: r.observer()})
		require.NoError(t, err)
		return r.run(x)
	}
	closed(t, dir, func(st onefold.Store) {
		w := r.startOn(r.js, st, send)
		r.publish("one", "x")
		r.awaitCount("acked", 1)
		r.settled()
		w.end()
	})
	old := copied(t, dir) // its row has not left
	closed(t, dir, func(st onefold.Store) {
		out := relay(st)
		r.read("OUT", 1)
		out.end()
		w := r.startOn(r.js, st, send)
		r.publish("two", "x")
		r.awaitCount("acked", 2)
		r.settled()
		w.end()
	})
	closed(t, old, func(st onefold.Store) {
		err := r.startOn(r.js, st, send).err()
		require.ErrorIs(t, err, consumer.ErrWrongStore)
		assert.ErrorContains(t, err, "older copy")
		assert.ErrorContains(t, err, "AdoptDurable")
		send.AdoptDurable = true
		w, out := r.startOn(r.js, st, send), relay(st)
		r.publish("three", "x")
		r.awaitCount("acked", 3)
		first := r.read("OUT", 2)
		assert.NotEqual(t, first[0].Headers().Get(jetstream.MsgIDHeader), first[1].Headers().Get(jetstream.MsgIDHeader),
			"the row of the copy is a duplicate of what was sent before, and stalls nothing")
		w.end()
		out.end()
	})
}

// The durable was made by hand, with a patience of its own. Signals follow that, and not what this program would have chosen.
func TestScenario_J14_HeartbeatsFollowWhatTheServerHasAndNotWhatWeWouldHaveChosen(t *testing.T) {
	r := newRig(t)
	_, err := r.js.CreateConsumer(r.ctx, "IN", jetstream.ConsumerConfig{
		Durable: "work", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 400 * time.Millisecond, MaxDeliver: -1})
	require.NoError(t, err)
	g := newGate()
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) })
	c.AckWait = 0 // by default half a minute
	w := r.start(c)
	r.publish("one", "x")
	r.await1(g.entered)
	// Three times its patience later the server still waits for us.
	r.publish("later", "x")
	require.Eventually(t, func() bool { return time.Since(r.events("received")[0].event.At) > 1200*time.Millisecond }, 10*time.Second, 10*time.Millisecond)
	assert.Zero(t, r.info().NumRedelivered)
	close(g.open)
	r.awaitCount("acked", 2)
	w.end()
	assert.Equal(t, 2, r.count("received"))

	// A list of delays would override that patience, so it is taken out.
	bad, err := r.js.UpdateConsumer(r.ctx, "IN", jetstream.ConsumerConfig{Durable: "work", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: time.Second, MaxDeliver: 9, BackOff: []time.Duration{time.Second, time.Minute}})
	require.NoError(t, err)
	require.NotEmpty(t, bad.CachedInfo().Config.BackOff)
	w = r.start(c)
	r.publish("three", "x")
	r.awaitCount("acked", 3)
	w.end()
	assert.Empty(t, r.info().Config.BackOff)
}
