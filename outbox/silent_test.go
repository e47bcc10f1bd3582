package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
)

// listen makes somebody hear messages who cannot answer like a stream.
func (r *rig) listen(subject string) {
	r.t.Helper()
	_, err := r.nc.Subscribe(subject, func(*nats.Msg) {})
	require.NoError(r.t, err)
	require.NoError(r.t, r.nc.Flush())
}

// A stream that does not answer holds up the rows that are for it and no others, however many they are.
func TestRowsOfASilentSubjectTakeNoPlaceFromOthers(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{Name: "MUTE", Subjects: []string{"mute"}, NoAck: true})
	r.emitMany("s", 200, "mute")
	r.emit("good", onefold.Effect{Target: "out.a", Payload: []byte("x")})
	r.run(outbox.Config{Window: 16, PublishTimeout: 100 * time.Millisecond, RetryMin: 2 * time.Millisecond, RetryMax: time.Second})
	good := r.await("settled", 1)[0].row
	assert.Equal(t, "out.a", good.Target)
	assert.Empty(t, r.events("parked"))
}

// Somebody who listens to everything keeps the server from saying that nobody does.
func TestARowThatOnlyAListenerHearsIsRefusedWithItsReason(t *testing.T) {
	r := newRig(t)
	r.listen(">")
	r.run(outbox.Config{MaxAttempts: 2, PublishTimeout: 50 * time.Millisecond, RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond})
	r.emit("a", onefold.Effect{Target: "nowhere.a"})
	parked := r.await("parked", 1)[0].row
	assert.Equal(t, onefold.ClassRefused, parked.Class)
	assert.ErrorContains(t, parked.Err, `no stream captures subject "nowhere.a"`)
}

// In a work queue a message is gone when it was consumed: "duplicate" without a message is no sign of a loss.
func TestADuplicateThatWasConsumedFromAWorkQueueIsBelieved(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{Name: "WORK", Subjects: []string{"work.>"}, Retention: jetstream.WorkQueuePolicy})
	_, err := r.js.PublishMsg(r.ctx, natsMessage("work.a", key("a").EffectID(0)))
	require.NoError(t, err)
	c, err := r.js.CreateConsumer(r.ctx, "WORK", jetstream.ConsumerConfig{Durable: "d", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	m, err := c.Next()
	require.NoError(t, err)
	require.NoError(t, m.DoubleAck(r.ctx))
	r.run(outbox.Config{})
	r.emit("a", onefold.Effect{Target: "work.a"})
	assert.True(t, r.await("published", 1)[0].row.Duplicate)
	r.await("settled", 1)
	assert.Empty(t, r.events("parked"))
}

// What a function says for certain is not forgotten when the row is parked: it may be resumed with others.
func TestACallThatHasCertainlyNotHappenedIsParkedAsSuch(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		r.run(outbox.Config{Functions: map[string]outbox.Function{"f": {Do: func(context.Context, outbox.Call) error {
			return onefold.Permanent(errors.New("no such card"))
		}}}})
		r.call("a", "f", true)
		r.await("parked", 1)
		require.Len(t, r.parked(), 1)
		assert.False(t, r.parked()[0].Row.Tried)
	})
}

// ErrUnavailable may come from a store that the function has used after it did its work.
func TestACallAtMostOnceIsNotRepeatedBecauseAStoreWasAway(t *testing.T) {
	r := newRig(t)
	calls := 0
	r.run(outbox.Config{Functions: map[string]outbox.Function{"f": {Do: func(context.Context, outbox.Call) error {
		calls++
		return errors.Join(errors.New("note the receipt"), onefold.ErrUnavailable)
	}}}})
	r.call("a", "f", true)
	r.await("parked", 1)
	assert.Equal(t, 1, calls)
	assert.True(t, r.parked()[0].Row.Tried)
}
