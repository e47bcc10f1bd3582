package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/internal/natstest"
)

// kills says at which passing of its point each worker of a test dies. Each of them gets new orders, since
// the last one may have settled all of its own when it died.
var kills = []int64{1, 17, 40}

const (
	ordersEach = 60
	poisonEach = 2
	allOrders  = ordersEach * 3
	allPoison  = poisonEach * 3
)

func TestAWorkerKilledAtAnyPointChargesEveryOrderOnce(t *testing.T) {
	srv := natstest.Start(t)
	_, js := srv.Connect(t)
	t.Run("points", func(t *testing.T) {
		for _, point := range []string{"received", "claimed", "handled", "committed", "acked", "fetched", "published", "settled"} {
			t.Run(point, func(t *testing.T) {
				t.Parallel()
				killedAt(t, js, srv.URL(), point)
			})
		}
	})
}

func killedAt(t *testing.T, js jetstream.JetStream, url, point string) {
	ctx := context.Background()
	p := plan{URL: url, Dir: filepath.Join(t.TempDir(), "store"), Orders: "ORDERS_" + point,
		Target: "charges." + point, Dead: "dead." + point}
	for name, subject := range map[string]string{p.Orders: "orders." + point, "CHARGES_" + point: p.Target, "DEAD_" + point: p.Dead} {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{subject}})
		require.NoError(t, err)
	}
	for round, nth := range kills {
		publishTwice(t, js, "orders."+point, round)
		p.Point, p.Nth = point, nth
		w := start(t, p)
		err := w.cmd.Wait()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "the worker was to be killed, and ended with: %s", w.output)
		require.False(t, exit.Exited(), "the worker ended by itself: %s", w.output)
	}

	p.Point = ""
	w := start(t, p)
	require.Eventually(t, func() bool { return settled(ctx, js, p, point) }, 60*time.Second, 50*time.Millisecond, "not everything was settled")
	require.NoError(t, w.input.Close())
	require.NoError(t, w.cmd.Wait(), w.output)

	blamed := blamedFor(t, js, "DEAD_"+point)
	charged := contents(t, js, "CHARGES_"+point)
	seen := map[string]bool{}
	for _, id := range slices.Concat(charged, blamed) {
		assert.False(t, seen[id], "order %s has ended twice", id)
		seen[id] = true
	}
	require.Len(t, seen, allOrders)
	assert.Len(t, contents(t, js, "DEAD_"+point), allPoison+len(blamed))
	assert.LessOrEqual(t, len(blamed), mayBlame(point))
}

// mayBlame is how many orders may be taken for what kills the process when it is killed at point. If the kill hits
// an order in flight, and the next one the same order while it runs alone, nothing tells the order from one that
// kills the process. What the relay does never hits an order that runs alone.
func mayBlame(point string) int {
	if slices.Contains([]string{"fetched", "published", "settled"}, point) {
		return 0
	}
	return 1
}

// blamedFor returns the IDs of the orders that were taken for what kills the process.
func blamedFor(t *testing.T, js jetstream.JetStream, stream string) []string {
	s, err := js.Stream(context.Background(), stream)
	require.NoError(t, err)
	var ids []string
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(context.Background(), seq)
		require.NoError(t, err)
		if m.Header.Get(consumer.HeaderDeadReason) == "kills the process" {
			ids = append(ids, m.Header.Get(consumer.HeaderDeadID))
		}
	}
	return ids
}

// publishTwice publishes every order under two transport IDs, as a producer does that got no answer.
func publishTwice(t *testing.T, js jetstream.JetStream, subject string, round int) {
	for copy := range 2 {
		for i := range ordersEach + poisonEach {
			o := order{ID: fmt.Sprintf("order-%d-%d", round, i), Poison: i >= ordersEach}
			body, err := json.Marshal(o)
			require.NoError(t, err)
			_, err = js.PublishMsg(context.Background(), &nats.Msg{Subject: subject, Data: body, Header: nats.Header{
				onefold.HeaderID: {o.ID}, jetstream.MsgIDHeader: {fmt.Sprintf("%s/%d", o.ID, copy)}}})
			require.NoError(t, err)
		}
	}
}

// settled reports whether every order is answered and every effect has arrived.
func settled(ctx context.Context, js jetstream.JetStream, p plan, point string) bool {
	c, err := js.Consumer(ctx, p.Orders, "billing")
	if err != nil {
		return false
	}
	info := c.CachedInfo()
	return info.NumPending == 0 && info.NumAckPending == 0 && info.Delivered.Consumer > 0 &&
		count(ctx, js, "CHARGES_"+point)+count(ctx, js, "DEAD_"+point) >= allOrders+allPoison
}

func count(ctx context.Context, js jetstream.JetStream, stream string) uint64 {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return 0
	}
	return s.CachedInfo().State.Msgs
}

func contents(t *testing.T, js jetstream.JetStream, stream string) []string {
	s, err := js.Stream(context.Background(), stream)
	require.NoError(t, err)
	var bodies []string
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(context.Background(), seq)
		require.NoError(t, err)
		bodies = append(bodies, string(m.Data))
	}
	return bodies
}

// process is a running worker.
type process struct {
	cmd    *exec.Cmd
	input  io.Closer
	output *os.File
}

func start(t *testing.T, p plan) process {
	encoded, err := json.Marshal(p)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	output, err := os.Create(filepath.Join(t.TempDir(), "worker.log"))
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), planVariable+"="+string(encoded))
	cmd.Stdout, cmd.Stderr = output, output
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // does nothing to one that has ended
		_ = output.Close()
	})
	return process{cmd: cmd, input: input, output: output}
}
