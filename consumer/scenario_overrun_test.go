package consumer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

// deaf lets the messages whose body is "hang" ignore their context until the gate opens.
func (g *gate) deafTo(hang string, also onefold.Handler) onefold.Handler {
	return func(ctx context.Context, m *onefold.Message, fx *onefold.Effects) error {
		if string(m.Data) == hang {
			return g.pass(context.Background())
		}
		return also(ctx, m, fx)
	}
}

func TestScenario_L01_AfterARunThatOverstaysItsTimeTheNextDeliveryRuns(t *testing.T) {
	r, g := newRig(t), newGate()
	r.output()
	var runs atomic.Int64
	returned := make(chan struct{})
	c := r.config(func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		if runs.Add(1) == 1 {
			_ = g.pass(context.Background())
			fx.Publish("out.a", "late")
			fx.Result([]byte("late"))
			close(returned)
			return nil
		}
		fx.Publish("out.a", "next")
		fx.Result([]byte("next"))
		return nil
	})
	c.HandlerTimeout, c.Concurrency = 100*time.Millisecond, 1
	w, relay := r.start(c), r.relay()
	sequence := r.publish("one", "x")
	r.awaitCount("acked", 1) // with one worker: it was replaced
	r.settled()

	zombie := r.events("zombie")[0].event
	assert.Equal(t, "one", zombie.Key.ID)
	assert.Equal(t, sequence, zombie.Sequence)
	assert.Equal(t, 1, zombie.Zombies)
	assert.GreaterOrEqual(t, zombie.Took, c.HandlerTimeout)
	retried := r.events("retried")[0].event
	assert.Equal(t, onefold.ClassTimeout, retried.Class)
	assert.Equal(t, 2, r.events("acked")[0].event.Attempt, "it used up an attempt")

	close(g.open)
	r.await1(returned)
	r.awaitCount("zombie ended", 1)
	assert.Zero(t, r.events("zombie ended")[0].event.Zombies)
	assert.Equal(t, onefold.ClassLost, r.events("handled")[1].event.Class)
	w.end()
	relay.end()
	record, err := r.st.Lookup(r.ctx, onefold.Key{Scope: "IN/work", ID: "one"})
	require.NoError(t, err)
	assert.Equal(t, "next", string(record.Result))
	assert.Equal(t, 1, r.stored("OUT"), "what the zombie asked for is refused")
	assert.Equal(t, 1, r.count("committed"))
	assert.Equal(t, 1, r.count("acked"), "and neither its ack nor its nak is sent")
	assert.Equal(t, 1, r.count("retried"))
	assert.Equal(t, 2, r.count("received"))
}

func TestScenario_J13_AHandlerThatNeverReturnsEndsAsADeadLetter(t *testing.T) {
	r, g := newRig(t), newGate()
	c := r.config(g.deafTo("hang", nothing))
	c.HandlerTimeout, c.Concurrency, c.MaxAttempts = 50*time.Millisecond, 1, 2
	w, relay := r.start(c), r.relay()
	r.publish("one", "hang")
	r.publish("two", "x")
	r.awaitCount("acked", 2)
	r.settled()
	letter := r.read("ONEFOLD_DEAD", 1)[0]
	assert.Equal(t, "timeout", letter.Headers().Get("Onefold-Dead-Class"))
	assert.Equal(t, "2", letter.Headers().Get("Onefold-Dead-Attempts"))
	assert.Contains(t, letter.Headers().Get("Onefold-Dead-Reason"), "attempt 2 of 2")
	assert.Contains(t, letter.Headers().Get("Onefold-Dead-Earlier-Error"), "still running")
	assert.Equal(t, "hang", string(letter.Data()))
	close(g.open)
	r.awaitCount("zombie ended", 2)
	w.end()
	relay.end()
	assert.Equal(t, 1, r.stored("ONEFOLD_DEAD"))
}

func TestAHandlerThatHeedsTheEndOfItsContextIsNoZombie(t *testing.T) {
	for name, end := range map[string]error{"with an error": errors.New("stopped"), "with success": nil} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var runs atomic.Int64
			causes := make(chan error, 1)
			c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error {
				if runs.Add(1) > 1 {
					return ctx.Err() // the context of a run that was stopped serves no other
				}
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return end
			})
			c.HandlerTimeout, c.Concurrency = 100*time.Millisecond, 1
			w := r.start(c)
			r.publish("one", "x")
			r.publish("two", "x")
			r.awaitCount("acked", 2)
			w.end()
			require.ErrorIs(t, <-causes, consumer.ErrHandlerTimeout)
			assert.Zero(t, r.count("zombie"))
			assert.Zero(t, r.count("lost"))
			if end == nil {
				assert.Zero(t, r.count("retried"))
				return
			}
			retried := r.events("retried")[0].event
			assert.Equal(t, onefold.ClassTimeout, retried.Class)
			assert.ErrorContains(t, retried.Err, "stopped")
		})
	}
}

func TestALostClaimWhoseHandlerDoesNotReturnCostsNoWorker(t *testing.T) {
	r, g := newRig(t), newGate()
	st := &faulty{Store: r.st}
	var lost atomic.Bool
	st.renew = func(c *onefold.Claim) error {
		if lost.Swap(true) {
			return nil
		}
		if err := r.st.Release(r.ctx, c, onefold.Failure{}); err != nil {
			return err
		}
		return onefold.ErrLost
	}
	var runs atomic.Int64
	c := r.config(func(context.Context, *onefold.Message, *onefold.Effects) error {
		if runs.Add(1) == 1 {
			return g.pass(context.Background())
		}
		return nil
	})
	c.AckWait, c.Lease, c.Concurrency, c.HandlerTimeout = time.Second, 300*time.Millisecond, 1, 400*time.Millisecond
	w := r.startOn(r.js, st, c)
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	assert.Equal(t, 1, r.count("lost"))
	assert.Equal(t, 1, r.count("zombie"))
	close(g.open)
	r.awaitCount("zombie ended", 1)
	w.end()
}

func TestShutdownEndsBesideAZombieAndNamesIt(t *testing.T) {
	for name, end := range map[string]func(){"it returns": func() {}, "it exits its goroutine": goexit} {
		t.Run(name, func(t *testing.T) {
			r, g := newRig(t), newGate()
			c := r.config(g.deafTo("hang", nothing))
			deaf := c.Handler
			c.Handler = func(ctx context.Context, m *onefold.Message, fx *onefold.Effects) error {
				err := deaf(ctx, m, fx)
				if string(m.Data) == "hang" {
					end()
				}
				return err
			}
			c.HandlerTimeout, c.RetryMin, c.RetryMax = 50*time.Millisecond, time.Hour, time.Hour
			w := r.start(c)
			r.publish("one", "hang")
			r.awaitCount("retried", 1)
			w.stop()
			err := w.err()
			require.ErrorIs(t, err, consumer.ErrHandlersRunning)
			assert.ErrorContains(t, err, "IN/work/one")
			assert.ErrorContains(t, err, "stream sequence 1")
			close(g.open)
			r.awaitCount("zombie ended", 1)
		})
	}
}

func TestTooManyZombiesEndRun(t *testing.T) {
	r, g := newRig(t), newGate()
	c := r.config(g.deafTo("hang", nothing))
	c.HandlerTimeout, c.RetryMin, c.RetryMax = 50*time.Millisecond, time.Hour, time.Hour
	w := r.start(c)
	for i := range 12 {
		r.publish(string(rune('a'+i)), "hang")
	}
	err := w.err()
	require.ErrorIs(t, err, consumer.ErrZombies)
	require.ErrorIs(t, err, consumer.ErrHandlersRunning)
	assert.GreaterOrEqual(t, r.count("zombie"), 9)
	close(g.open)
	n := r.count("zombie")
	r.awaitCount("zombie ended", n)
}

func TestAMessageWhoseRunIsGivenUpKeepsItsPlaceInTheOrderOfItsKey(t *testing.T) {
	r, g := newRig(t), newGate()
	var runs atomic.Int64
	c := r.config(func(context.Context, *onefold.Message, *onefold.Effects) error {
		if runs.Add(1) == 1 {
			return g.pass(context.Background())
		}
		return nil
	})
	c.HandlerTimeout, c.OrderBy = 50*time.Millisecond, func(*onefold.Message) string { return "one key" }
	w := r.start(c)
	r.publish("first", "x")
	r.await1(g.entered)
	r.publish("second", "x")
	r.awaitCount("acked", 2)
	r.settled()
	close(g.open)
	r.awaitCount("zombie ended", 1)
	w.end()
	var order []uint64
	for _, x := range r.events("claimed") {
		order = append(order, x.event.Sequence)
	}
	assert.Equal(t, []uint64{1, 1, 2}, order)
}
