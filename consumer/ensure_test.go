package consumer

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold/internal/natstest"
)

func TestALostDurableStartsBehindTheFloorOnlyInTheStreamThatTheFloorIsOf(t *testing.T) {
	ctx := context.Background()
	_, js := natstest.Start(t).Connect(t)
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in"}})
	require.NoError(t, err)
	_, err = js.Publish(ctx, "in", nil)
	require.NoError(t, err)
	m, err := s.GetMsg(ctx, 1)
	require.NoError(t, err)
	at := sample{Sequence: 1, Time: m.Time.UnixNano()}
	assert.True(t, knows(ctx, s, at))
	assert.False(t, knows(ctx, s, sample{Sequence: 1, Time: at.Time - 1}), "the position was used again")
	assert.False(t, knows(ctx, s, sample{Sequence: 2, Time: at.Time}), "the position is not there")

	s, err = js.Stream(ctx, "IN") // as it is now
	require.NoError(t, err)
	all, latest := Config{}, Config{DeliverPolicy: jetstream.DeliverNewPolicy}
	met := floor{Created: s.CachedInfo().Created.UnixNano(), At: at}
	assert.EqualValues(t, 1, met.restart(ctx, all, s))
	unsure := met
	unsure.At.Time--
	assert.Zero(t, unsure.restart(ctx, all, s))
	began := floor{Created: met.Created, From: 1}
	assert.EqualValues(t, 1, began.restart(ctx, latest, s), "nothing since it began is skipped")
	assert.Zero(t, began.restart(ctx, all, s))
	began.From = 2
	assert.Zero(t, began.restart(ctx, latest, s), "the stream has lost the position")
	met.Created--
	assert.Zero(t, met.restart(ctx, all, s), "another stream of that name")

	queue, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "QUEUE", Subjects: []string{"queue"}, Retention: jetstream.WorkQueuePolicy})
	require.NoError(t, err)
	met.Created = queue.CachedInfo().Created.UnixNano()
	assert.Zero(t, met.restart(ctx, all, queue), "a work queue takes only durables that start with its first message")
}
