package consumer_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func TestALeaderThatChangesUnderLoadLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	r, cluster := newClusterRig(t)
	const messages, part = 400, 100
	var runs [messages]atomic.Int64
	c := r.config(func(_ context.Context, m *onefold.Message, _ *onefold.Effects) error {
		i, err := strconv.Atoi(m.Header.Get(onefold.HeaderID))
		runs[i].Add(1)
		return err
	})
	c.AckWait = 2 * time.Second
	w := r.start(c)
	r.awaitCount("state running", 1)
	for i := range messages {
		switch i {
		case part:
			r.stepDown("CONSUMER.LEADER.STEPDOWN.IN.work")
		case 2 * part:
			r.stepDown("STREAM.LEADER.STEPDOWN.IN")
		case 3 * part:
			leader := cluster.Named(r.info().Cluster.Leader)
			require.NotNil(t, leader)
			leader.Stop()
			defer func() { assert.NoError(t, leader.StartAgain()) }()
		}
		require.Eventually(t, func() bool { return r.offer(fmt.Sprint(i)) == nil }, 30*time.Second, 5*time.Millisecond)
	}
	r.await("all", func(c map[string]int) bool { return c["committed"] == messages })
	w.end()
	for i := range runs {
		assert.EqualValues(t, 1, runs[i].Load(), "message %d", i)
	}
}

// stepDown makes another server the leader.
func (r *rig) stepDown(request string) {
	r.t.Helper()
	reply, err := r.nc.RequestWithContext(r.ctx, "$JS.API."+request, nil)
	require.NoError(r.t, err)
	require.Contains(r.t, string(reply.Data), `"success":true`)
}
