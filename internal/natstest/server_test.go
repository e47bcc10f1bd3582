package natstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold/internal/natstest"
)

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestStreamsSurviveARestartOnTheSamePort(t *testing.T) {
	ctx := testContext(t)
	s := natstest.Start(t)
	url := s.URL()
	reconnected := make(chan struct{}, 1)
	_, js := s.Connect(t, nats.ReconnectHandler(func(*nats.Conn) { reconnected <- struct{}{} }))
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	require.NoError(t, err)
	_, err = js.Publish(ctx, "s.1", []byte("kept"))
	require.NoError(t, err)

	s.Restart(t)
	select {
	case <-reconnected:
	case <-ctx.Done():
		require.Fail(t, "the client did not reconnect")
	}

	assert.Equal(t, url, s.URL())
	stream, err := js.Stream(ctx, "S")
	require.NoError(t, err)
	msg, err := stream.GetMsg(ctx, 1)
	require.NoError(t, err)
	assert.Equal(t, "kept", string(msg.Data))
}

func TestStopAndStartAgainAreIdempotent(t *testing.T) {
	s, err := natstest.StartAt(t.TempDir(), natstest.Options{})
	require.NoError(t, err)
	require.NoError(t, s.StartAgain())
	s.Stop()
	s.Stop()
	_, _, err = s.Dial()
	require.ErrorIs(t, err, nats.ErrNoServers)
	require.NoError(t, s.StartAgain())
	nc, _, err := s.Dial()
	require.NoError(t, err)
	nc.Close()
	s.Stop()
}

func TestOptionsReachTheServer(t *testing.T) {
	s := natstest.Start(t, natstest.Options{MaxPayload: 512})
	nc, _ := s.Connect(t)
	assert.EqualValues(t, 512, nc.MaxPayload())
}

func TestAClusterReplicatesAndLivesOnWithoutOneOfItsServers(t *testing.T) {
	ctx := testContext(t)
	c := natstest.StartCluster(t, 3)
	nc, js := c.Connect(t)
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: 3})
	require.NoError(t, err)
	_, err = js.Publish(ctx, "s.1", []byte("kept"))
	require.NoError(t, err)
	leader := c.Named(s.CachedInfo().Cluster.Leader)
	require.NotNil(t, leader)
	assert.Nil(t, c.Named("other"))
	leader.Stop()
	require.Eventually(t, func() bool {
		_, err := js.Publish(ctx, "s.1", nil)
		return err == nil && nc.IsConnected()
	}, 30*time.Second, 10*time.Millisecond)
}
