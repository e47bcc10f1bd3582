package consumer_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
)

func TestASuspectWaitsUntilTheRelayHasNothingInHand(t *testing.T) {
	r, call := newRig(t), newGate()
	r.cutShort("suspect", 1)
	_, err := outbox.Enqueue(r.ctx, r.st, onefold.Key{Scope: "web", ID: "1"}, time.Hour, func(fx *onefold.Effects) error {
		fx.Call("charge", "x")
		return nil
	})
	require.NoError(t, err)
	relay, err := outbox.NewRelay(r.st, outbox.Config{JetStream: r.js, Functions: map[string]outbox.Function{
		"charge": {Do: func(ctx context.Context, _ outbox.Call) error { return call.pass(ctx) }}}})
	require.NoError(t, err)
	sending := r.run(relay)
	r.await1(call.entered)
	r.publish("suspect", "x") // what is published after the start is no suspect

	r.publish("suspect", "x") // before the start: what comes later is no suspect
	var calledFirst atomic.Bool
	w := r.start(r.config(func(context.Context, *onefold.Message, *onefold.Effects) error {
		select {
		case <-call.open:
			calledFirst.Store(true)
		default:
		}
		return nil
	}))
	r.awaitCount("received", 1)
	close(call.open)
	r.awaitCount("acked", 1)
	assert.True(t, calledFirst.Load(), "the suspect ran beside a call of the relay")
	w.end()
	sending.end()
}

func TestSuspectsOfTwoConsumersOfAStoreDoNotRunTogether(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{Name: "ALSO", Subjects: []string{"also.>"}})
	r.cutShort("suspect", 1)
	r.cutShortIn("ALSO/work", "suspect", 1)
	r.publish("suspect", "x")
	r.send(&nats.Msg{Subject: "also.a", Data: []byte("x"), Header: nats.Header{onefold.HeaderID: {"suspect"}}})
	var running, most atomic.Int64
	g := newGate()
	handler := func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error {
		defer running.Add(-1)
		most.Store(max(most.Load(), running.Add(1)))
		return g.pass(ctx)
	}
	one, other := r.config(handler), r.config(handler)
	other.Stream = "ALSO"
	a, b := r.start(one), r.start(other)
	r.await1(g.entered)
	r.awaitCount("received", 2)
	close(g.open)
	r.awaitCount("acked", 2)
	a.end()
	b.end()
	assert.EqualValues(t, 1, most.Load())
}

// Every run reads and writes one value, so most of them conflict, while each worker may be waiting for room.
func TestRunsThatConflictWhileThereAreSuspectsGoOn(t *testing.T) {
	const messages = 60
	r := newRig(t)
	r.cutShort("suspect", 1)
	for i := range messages {
		if i == messages/2 {
			r.publish("suspect", "x")
		}
		r.publish(fmt.Sprint("m", i), "x")
	}
	w := r.start(r.config(func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		v, _, err := fx.Get(ctx, "counters", "all")
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(v))
		fx.Put("counters", "all", []byte(strconv.Itoa(n+1)))
		return nil
	}))
	r.awaitCount("acked", messages+1)
	w.end()
	v, err := r.st.Read(r.ctx, "counters", "all")
	require.NoError(t, err)
	assert.Equal(t, strconv.Itoa(messages+1), string(v.Data))
	assert.Zero(t, r.count("dead"))
}

// A suspect whose state moves while it runs alone gives its start back: had it kept it, an end of the process
// before its next turn would be blamed on it.
func TestASuspectWhoseStateMovesGivesItsStartBack(t *testing.T) {
	r := newRig(t)
	r.cutShort("suspect", 1)
	r.publish("suspect", "x")
	var runs atomic.Int64
	w := r.start(r.config(func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		if _, _, err := fx.Get(ctx, "counters", "all"); err != nil {
			return err
		}
		fx.Put("counters", "all", []byte("mine"))
		if runs.Add(1) == 1 {
			return r.write("counters", "all")
		}
		return nil
	}))
	r.awaitCount("acked", 1)
	w.end()
	require.Equal(t, 1, r.count("retried"))
	assert.Equal(t, onefold.ClassConflict, r.events("retried")[0].event.Class)
	assert.EqualValues(t, 2, runs.Load())
	assert.Equal(t, 1, r.events("acked")[0].event.Attempt)
}
