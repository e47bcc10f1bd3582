package consumer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/memstore"
)

// forgetful is a producer's store that dies before it records that a row was sent.
type forgetful struct{ onefold.Store }

func (forgetful) Settle(context.Context, []onefold.Settlement) error { return onefold.ErrDamaged }

func TestScenario_O30_ARowPublishedAgainAfterTheServersWindowRunsOnce(t *testing.T) {
	r := newRig(t)
	_, err := r.js.UpdateStream(r.ctx, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}, Duplicates: 100 * time.Millisecond})
	require.NoError(t, err)
	producer := memstore.New()
	t.Cleanup(func() { _ = producer.Close(context.Background()) })
	row := onefold.Key{Scope: "producer", ID: "a"}
	_, err = outbox.Enqueue(r.ctx, producer, row, 0, func(fx *onefold.Effects) error {
		fx.Publish("in.a", []byte("x"))
		return nil
	})
	require.NoError(t, err)
	first, err := outbox.NewRelay(forgetful{producer}, outbox.Config{JetStream: r.js})
	require.NoError(t, err)
	require.ErrorIs(t, first.Run(r.ctx), onefold.ErrDamaged)

	// A message that was published after the row and is not known any more tells that the window has passed.
	marker := func() *nats.Msg {
		return &nats.Msg{Subject: "in.b", Header: nats.Header{"Nats-Msg-Id": {"marker"}, onefold.HeaderID: {"marker"}}}
	}
	r.send(marker())
	require.Eventually(t, func() bool {
		ack, err := r.js.PublishMsg(r.ctx, marker())
		return err == nil && !ack.Duplicate
	}, 20*time.Second, 20*time.Millisecond)

	sent := make(chan onefold.RowEvent, 1)
	second, err := outbox.NewRelay(producer, outbox.Config{
		JetStream: r.js, Observer: &onefold.Observer{Settled: func(e onefold.RowEvent) { sent <- e }},
	})
	require.NoError(t, err)
	r.run(second)
	e := <-sent
	assert.Equal(t, row.EffectID(0), e.ID)
	assert.False(t, e.Duplicate, "the server has stored it a second time")

	var runs atomic.Int64
	w := r.start(r.config(func(_ context.Context, m *onefold.Message, _ *onefold.Effects) error {
		if m.Subject == "in.a" {
			runs.Add(1)
		}
		return nil
	}))
	r.awaitCount("duplicate", 2) // of the row, and of the marker
	w.end()
	assert.EqualValues(t, 1, runs.Load())
	assert.Equal(t, 4, r.stored("IN"))
}
