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
	unsure, other := met, met
	unsure.At.Time--
	other.Created--
	began, empty, lost := floor{Created: met.Created, From: 1}, floor{Created: met.Created}, floor{Created: met.Created, From: 2}
	queue, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "QUEUE", Subjects: []string{"queue"}, Retention: jetstream.WorkQueuePolicy})
	require.NoError(t, err)
	queued := met
	queued.Created = queue.CachedInfo().Created.UnixNano()
	for name, c := range map[string]struct {
		at     floor
		cfg    Config
		in     jetstream.Stream
		behind uint64
		known  bool
	}{
		"behind what is settled":                   {met, all, s, 1, true},
		"what is settled is not certain":           {unsure, all, s, 0, false},
		"nothing since it began is skipped":        {began, latest, s, 1, true},
		"it began with the first message":          {began, all, s, 0, false},
		"it began before the first message":        {empty, latest, s, 0, true},
		"the stream has lost the position":         {lost, latest, s, 0, false},
		"another stream of that name":              {other, latest, s, 0, true},
		"never served":                             {floor{}, latest, s, 0, false},
		"a work queue takes no other start at all": {queued, all, queue, 0, false},
	} {
		behind, known := c.at.restart(ctx, c.cfg, c.in)
		assert.Equal(t, c.known, known, name)
		assert.Equal(t, c.behind, behind, name)
	}
}
