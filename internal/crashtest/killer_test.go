package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
)

// killSelf ends this process as the kernel does when memory runs out.
func killSelf() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // the signal is on its way
}

// handler is charge, and what p.Together says.
func (p plan) handler() func(context.Context, order, *onefold.Effects) error {
	if p.Together == 0 {
		return p.charge
	}
	var inFlight atomic.Int64
	full := make(chan struct{})
	return func(ctx context.Context, o order, fx *onefold.Effects) error {
		if inFlight.Add(1) == p.Together && p.Together > 1 {
			close(full)
		}
		defer inFlight.Add(-1)
		if p.Together > 1 {
			<-full
			if !o.Killer {
				<-ctx.Done() // it is in flight when the process dies
				return ctx.Err()
			}
		}
		if o.Killer {
			fmt.Fprintf(os.Stderr, "killed with %d in flight\n", inFlight.Load())
			killSelf()
		}
		return p.charge(ctx, o, fx)
	}
}

const inFlightTogether = 32

func TestTheMessageThatKillsTheProcessIsFoundWithoutBlamingThe31OthersInFlight(t *testing.T) {
	srv := natstest.Start(t)
	_, js := srv.Connect(t)
	ctx := context.Background()
	p := plan{URL: srv.URL(), Dir: filepath.Join(t.TempDir(), "store"), Orders: "ORDERS", Target: "charges", Dead: "dead", Concurrency: inFlightTogether}
	for name, subject := range map[string]string{"ORDERS": "orders", "CHARGES_": p.Target, "DEAD_": p.Dead} {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{subject}})
		require.NoError(t, err)
	}
	for i := range inFlightTogether {
		o := order{ID: fmt.Sprintf("order-%d", i), Killer: i == 7}
		body, err := json.Marshal(o)
		require.NoError(t, err)
		_, err = js.PublishMsg(ctx, &nats.Msg{Subject: "orders", Data: body, Header: nats.Header{onefold.HeaderID: {o.ID}}})
		require.NoError(t, err)
	}

	// Twice with all of them, then whenever it runs.
	for death, together := range []int64{inFlightTogether, inFlightTogether, 1} {
		p.Together = together
		w := start(t, p)
		var exit *exec.ExitError
		require.ErrorAs(t, w.cmd.Wait(), &exit, "death %d", death+1)
		require.False(t, exit.Exited(), "the worker ended by itself: %s", w.log(t))
		assert.Contains(t, w.log(t), fmt.Sprintf("killed with %d in flight", together))
	}

	w := start(t, p)
	require.Eventually(t, func() bool {
		c, err := js.Consumer(ctx, "ORDERS", "billing")
		return err == nil && c.CachedInfo().NumPending == 0 && c.CachedInfo().NumAckPending == 0 &&
			count(ctx, js, "CHARGES_") >= inFlightTogether-1 && count(ctx, js, "DEAD_") >= 1
	}, 60*time.Second, 50*time.Millisecond, "not everything was settled")
	require.NoError(t, w.input.Close())
	require.NoError(t, w.cmd.Wait(), w.log(t))

	charged := map[string]bool{}
	for _, id := range contents(t, js, "CHARGES_") {
		assert.False(t, charged[id], "order %s is charged twice", id)
		charged[id] = true
	}
	assert.Len(t, charged, inFlightTogether-1)
	assert.NotContains(t, charged, "order-7")
	require.Len(t, contents(t, js, "DEAD_"), 1)
	s, err := js.Stream(ctx, "DEAD_")
	require.NoError(t, err)
	letter, err := s.GetMsg(ctx, 1)
	require.NoError(t, err)
	assert.Equal(t, "order-7", letter.Header.Get(consumer.HeaderDeadID))
	assert.Equal(t, "kills the process", letter.Header.Get(consumer.HeaderDeadReason))
	assert.Equal(t, string(onefold.ClassCutShort), letter.Header.Get(consumer.HeaderDeadClass))
	assert.Equal(t, "2", letter.Header.Get(consumer.HeaderDeadAttempts))
}

// log is what the worker has written.
func (p process) log(t *testing.T) string {
	text, err := os.ReadFile(p.output.Name())
	require.NoError(t, err)
	return string(text)
}
