package consumer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// signals are the "still working" signals that the server gets for one durable.
func (r *rig) signals() <-chan struct{} {
	r.t.Helper()
	seen := make(chan struct{}, 1024)
	_, err := r.nc.Subscribe("$JS.ACK.IN.work.>", func(m *nats.Msg) {
		if string(m.Data) == "+WPI" {
			seen <- struct{}{}
		}
	})
	require.NoError(r.t, err)
	require.NoError(r.t, r.nc.Flush())
	return seen
}

func TestScenario_J14_SignalsFollowThePatienceOfTheDurableAndDelaysThatOverrideItAreTakenOut(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGate()
	// The first delay takes the place of AckWait at the server.
	_, err := r.js.CreateConsumer(r.ctx, "IN", jetstream.ConsumerConfig{
		Durable: "work", AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 9, BackOff: []time.Duration{2 * time.Second, time.Minute}})
	require.NoError(t, err)
	var runs atomic.Int64
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error {
		runs.Add(1)
		return g.pass(ctx)
	})
	c.AckWait = 0 // by default half a minute, with signals that would come far too late

	strict := c
	strict.BindOnly = true
	r.stream(jetstream.StreamConfig{Name: "ONEFOLD_DEAD", Subjects: []string{"onefold.dead.>"}})
	err = r.start(strict).err()
	require.ErrorIs(t, err, onefold.ErrInvalid)
	assert.ErrorContains(t, err, "BackOff is [2s 1m0s]")

	signals := r.signals()
	w := r.start(c)
	r.publish("one", "x")
	r.await1(g.entered)
	for range 5 { // more than the durable's patience holds, and less than one signal of the default's would take
		r.await1(signals)
	}
	found := r.info()
	assert.Equal(t, 2*time.Second, found.Config.AckWait)
	assert.Empty(t, found.Config.BackOff)
	close(g.open)
	r.awaitCount("acked", 1)
	r.settled()
	w.end()
	assert.EqualValues(t, 1, runs.Load())
}

// muffled is a store whose first answer to a claim of a message gets lost on its way.
type muffled struct {
	onefold.Store
	lost atomic.Bool
}

func (d *muffled) Begin(ctx context.Context, r onefold.Request) (onefold.Grant, error) {
	grant, err := d.Store.Begin(ctx, r)
	if err == nil && r.Key.ID == "one" && !d.lost.Swap(true) {
		return onefold.Grant{}, onefold.ErrUnavailable
	}
	return grant, err
}

func TestScenario_L11_AMessageWhoseClaimWasGrantedUnheardRunsWithoutWaitingForTheLease(t *testing.T) {
	r := newRig(t)
	r.clocked() // no lease ever ends
	st := &muffled{Store: r.st}
	var runs atomic.Int64
	w := r.startOn(r.js, st, r.config(counting(&runs)))
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	assert.True(t, st.lost.Load())
	assert.EqualValues(t, 1, runs.Load())
	assert.Zero(t, r.count("retried"), "the claim that it finds is its own")
}
