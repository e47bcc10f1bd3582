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
	info := s.CachedInfo()

	assert.True(t, knows(ctx, js, info, at))
	assert.False(t, knows(ctx, js, info, sample{Sequence: 1, Time: at.Time - 1}), "the position was used again")
	assert.False(t, knows(ctx, js, info, sample{Sequence: 2, Time: at.Time}), "the position is not there")
	queue := *info
	queue.Config.Retention = jetstream.WorkQueuePolicy
	assert.False(t, knows(ctx, js, &queue, at), "a work queue takes only durables that start with its first message")
}
