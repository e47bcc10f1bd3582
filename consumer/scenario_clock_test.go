package consumer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/store/memstore"
	"github.com/onefold-go/onefold/store/storetest"
)

// clocked gives the rig a store whose time moves only when told.
func (r *rig) clocked() *storetest.Clock {
	r.t.Helper()
	clock := storetest.NewClock()
	require.NoError(r.t, r.st.Close(r.ctx))
	r.data = memstore.NewData(clock.Clock())
	r.open(&memstore.Options{Clock: clock.Clock()})
	return clock
}

// owner claims a key as somebody who dies then.
func (r *rig) owner(id string, attempt uint64, lease time.Duration) onefold.Grant {
	r.t.Helper()
	g, err := r.st.Begin(r.ctx, onefold.Request{Key: onefold.Key{Scope: "IN/work", ID: id}, Lease: lease,
		Holder: onefold.Holder{Process: 1, Attempt: attempt}})
	require.NoError(r.t, err)
	return g
}

func TestScenario_L04_NoKeyIsHeldLongerThanOneLeaseAfterItsOwnerDied(t *testing.T) {
	r := newRig(t)
	clock := r.clocked()
	require.Equal(t, onefold.Granted, r.owner("one", 1, consumer.DefaultLease).Verdict)
	var runs atomic.Int64
	w := r.start(r.config(counting(&runs)))
	r.publish("one", "x")
	r.awaitCount("retried", 3)
	clock.Advance(consumer.DefaultLease - time.Millisecond)
	r.awaitCount("retried", r.count("retried")+3)
	assert.Zero(t, runs.Load())
	clock.Advance(time.Millisecond)
	r.awaitCount("acked", 1)
	w.end()
	assert.EqualValues(t, 1, runs.Load())
}

func TestScenario_L10_JumpsOfTheWallClockMakeNoSecondOwnerAndNoEndlessLease(t *testing.T) {
	const days = 48 * time.Hour
	for name, jump := range map[string]time.Duration{"two days ahead": days, "two days back": -days} {
		t.Run(name, func(t *testing.T) {
			r, g := newRig(t), newGate()
			clock := r.clocked()
			var runs atomic.Int64
			c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error {
				runs.Add(1)
				return g.pass(ctx)
			})
			c.Clock = onefold.Clock{Wall: clock.Wall}
			c.AckWait, c.Lease, c.HandlerTimeout = 300*time.Millisecond, 300*time.Millisecond, time.Minute
			w := r.start(c)
			r.publish("held", "x")
			r.await1(g.entered)
			require.Equal(t, onefold.Granted, r.owner("dead", 1, c.Lease).Verdict)
			clock.StepWall(jump)
			r.publish("held", "x")
			r.awaitCount("followed", 1)
			busy := r.owner("held", 2, c.Lease)
			assert.Equal(t, onefold.Busy, busy.Verdict, "no second owner")
			assert.LessOrEqual(t, busy.RetryAfter, c.Lease, "no endless lease")
			r.publish("dead", "x")
			r.awaitCount("retried", 1)
			clock.StepWall(-jump)
			require.EqualValues(t, 1, runs.Load())
			close(g.open)
			r.await("the held one and its copy", func(n map[string]int) bool { return n["acked"] == 1 && n["duplicate"] == 1 })
			clock.Advance(c.Lease)
			r.awaitCount("acked", 2)
			r.settled()
			w.end()
			assert.EqualValues(t, 2, runs.Load())
			assert.Zero(t, r.count("lost")+r.count("zombie")+r.count("dead"))
		})
	}
}

func TestScenario_L13_SignalsThatAreLostMakeNoSecondRun(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGate()
	var runs atomic.Int64
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error {
		runs.Add(1)
		return g.pass(ctx)
	})
	c.AckWait = time.Minute
	w := r.start(c)
	r.awaitCount("state running", 1)
	// The server loses patience before the first signal, as if all of them were lost.
	found := r.info().Config
	found.AckWait = 200 * time.Millisecond
	_, err := r.js.UpdateConsumer(r.ctx, "IN", found)
	require.NoError(t, err)
	r.publish("one", "x")
	r.await1(g.entered)
	r.awaitCount("dropped", 3) // delivered again to the one who has it
	assert.Equal(t, onefold.Busy, r.owner("one", 1, time.Second).Verdict, "another process would be told to wait")
	close(g.open)
	r.awaitCount("acked", 1)
	r.settled()
	w.end()
	assert.EqualValues(t, 1, runs.Load())
	assert.Zero(t, r.count("lost"))
}
