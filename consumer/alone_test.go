package consumer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

// cutShort leaves a start of a key that no failure followed, in a store that was not closed.
func (r *rig) cutShort(id string, starts int) {
	r.t.Helper()
	r.cutShortIn("IN/work", id, starts)
}

func (r *rig) cutShortIn(scope, id string, starts int) {
	r.t.Helper()
	for range starts {
		g, err := r.st.Begin(r.ctx, onefold.Request{Key: onefold.Key{Scope: scope, ID: id}, Lease: consumer.DefaultLease,
			Holder: onefold.Holder{Process: 1, Attempt: 1}, Durable: true})
		require.NoError(r.t, err)
		require.Equal(r.t, onefold.Granted, g.Verdict)
		r.reopen()
	}
}

func TestASuspectRunsAlone(t *testing.T) {
	r, g := newRig(t), newGate()
	r.cutShort("suspect", 1)
	r.publish("suspect", "suspect")
	var alone atomic.Bool
	alone.Store(true)
	w := r.start(r.config(func(ctx context.Context, m *onefold.Message, _ *onefold.Effects) error {
		if string(m.Data) == "suspect" {
			return g.pass(ctx)
		}
		select {
		case <-g.open:
		default:
			alone.Store(false)
		}
		return nil
	}))
	r.await1(g.entered)
	for _, id := range []string{"a", "b", "c"} {
		r.publish(id, "x")
	}
	r.awaitCount("received", 4)
	close(g.open)
	r.awaitCount("acked", 4)
	w.end()
	assert.True(t, alone.Load(), "nothing ran beside the suspect")
	assert.Zero(t, r.count("dead"))
}

func TestWhatWaitsBehindASuspectIsBroughtBackAtShutdown(t *testing.T) {
	r, g := newRig(t), newGate()
	r.cutShort("suspect", 1)
	r.publish("suspect", "x")
	w := r.start(r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) }))
	r.await1(g.entered)
	r.publish("behind", "x")
	r.awaitCount("received", 2)
	w.stop()
	r.await("the one behind", func(c map[string]int) bool { return c["retried"]+c["given back"] == 1 })
	assert.Zero(t, r.count("acked"), "the suspect still runs")
	close(g.open)
	require.NoError(t, w.err())
	assert.Equal(t, 1, r.count("acked"))
	assert.Equal(t, 1, r.count("claimed"))
}

func TestASuspectThatFailsIsJudgedByItsFailuresFromThenOn(t *testing.T) {
	r := newRig(t)
	r.cutShort("suspect", 1)
	r.publish("suspect", "x") // what is published after the start is no suspect
	var runs atomic.Int64
	w := r.start(r.config(func(context.Context, *onefold.Message, *onefold.Effects) error {
		if runs.Add(1) < 5 {
			return errors.New("not yet")
		}
		return nil
	}))
	r.awaitCount("acked", 1)
	w.end()
	assert.Equal(t, 5, r.events("acked")[0].event.Attempt)
	assert.Zero(t, r.count("dead"))
}

func TestASecondStartThatWasCutShortMakesADeadLetterWithoutARun(t *testing.T) {
	r := newRig(t)
	r.cutShort("suspect", 2)
	var runs atomic.Int64
	w, relay := r.start(r.config(counting(&runs))), r.relay()
	r.publish("suspect", "x")
	r.awaitCount("acked", 1)
	w.end()
	letter := r.read("ONEFOLD_DEAD", 1)[0]
	relay.end()
	assert.Zero(t, runs.Load())
	assert.Equal(t, "kills the process", letter.Headers().Get(consumer.HeaderDeadReason))
	assert.Equal(t, "cut short", letter.Headers().Get(consumer.HeaderDeadClass))
	require.Len(t, r.events("dead"), 1)
	assert.Equal(t, onefold.DeadLettered, r.events("dead")[0].event.Outcome)
}
