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
	"github.com/onefold-go/onefold/store/memstore"
)

func TestStoppingWaitsForARunningHandlerAndCommitsWhatItAsksFor(t *testing.T) {
	r, g := newRig(t), newGate()
	w := r.start(r.config(func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		fx.Result([]byte("done"))
		return g.pass(ctx)
	}))
	r.publish("one", "x")
	r.await1(g.entered)
	w.stop()
	r.awaitCount("state draining", 1)
	close(g.open)
	require.NoError(t, w.err())
	assert.Equal(t, 1, r.count("acked"))
	assert.Equal(t, 1, r.count("state stopped"))
	record, err := r.st.Lookup(r.ctx, onefold.Key{Scope: "IN/work", ID: "one"})
	require.NoError(t, err)
	assert.Equal(t, "done", string(record.Result))
	r.settled()
}

func TestAHandlerThatIsCancelledAtShutdownUsesUpNoAttempt(t *testing.T) {
	r, g := newRig(t), newGate()
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error {
		if g.pass(ctx) != nil {
			return errors.New("an error that hides its cause")
		}
		return nil
	})
	c.ShutdownTimeout, c.MaxAttempts = time.Millisecond, 1
	w := r.start(c)
	r.publish("one", "x")
	r.await1(g.entered)
	w.end()
	assert.Equal(t, 1, r.count("retried"))
	close(g.open)
	w = r.start(c)
	r.awaitCount("acked", 1)
	w.end()
	assert.Equal(t, 1, r.events("acked")[0].event.Attempt)
	assert.Zero(t, r.count("dead"))
}

func TestAHandlerThatIgnoresTheEndIsNamedAndItsLateResultRefused(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGate()
	c := r.config(func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		fx.Result([]byte("late"))
		return g.pass(context.Background())
	})
	c.ShutdownTimeout = time.Millisecond
	w := r.start(c)
	r.publish("one", "x")
	r.await1(g.entered)
	w.stop()
	require.ErrorIs(t, w.err(), consumer.ErrHandlersRunning)
	assert.Zero(t, r.count("acked"))
	close(g.open)
	r.awaitCount("lost", 1)
	_, err := r.st.Lookup(r.ctx, onefold.Key{Scope: "IN/work", ID: "one"})
	require.ErrorIs(t, err, onefold.ErrNotFound)
}

func TestStoppingWaitsForACommitThatIsUnderWay(t *testing.T) {
	r := newRig(t)
	writing, write := make(chan struct{}, 16), make(chan struct{})
	r.data.Crash()
	var handled atomic.Bool
	r.open(&memstore.Options{BeforeWrite: func() {
		if handled.Load() { // what is written at the start is not what this is about
			writing <- struct{}{}
			<-write
		}
	}})
	w := r.start(r.config(func(context.Context, *onefold.Message, *onefold.Effects) error { handled.Store(true); return nil }))
	r.publish("one", "x")
	r.await1(writing)
	w.stop()
	r.awaitCount("state draining", 1)
	assert.Zero(t, r.count("acked"))
	close(write)
	require.NoError(t, w.err())
	assert.Equal(t, 1, r.count("acked"))
}

func TestAStoreThatNeverAnswersDoesNotKeepAConsumerFromStopping(t *testing.T) {
	r := newRig(t)
	c := r.config(nothing)
	c.ShutdownTimeout = 50 * time.Millisecond
	st := &hanging{Store: r.st, asked: make(chan struct{}, 16)}
	w := r.startOn(r.js, st, c)
	r.publish("one", "x")
	r.await1(st.asked)
	w.end()
	assert.Zero(t, r.count("acked"))
}

// hanging never answers a commit of a message.
type hanging struct {
	onefold.Store
	asked chan struct{}
}

func (h *hanging) Commit(ctx context.Context, batch []*onefold.Commit) error {
	if !hasRecord(batch) {
		return h.Store.Commit(ctx, batch)
	}
	h.asked <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func TestAStoreThatHangsInReleaseDoesNotKeepAConsumerFromStopping(t *testing.T) {
	r := newRig(t)
	c := r.config(func(context.Context, *onefold.Message, *onefold.Effects) error { return errors.New("not yet") })
	c.ShutdownTimeout = 50 * time.Millisecond
	st := &deaf{Store: r.st, asked: make(chan struct{}, 16)}
	w := r.startOn(r.js, st, c)
	r.publish("one", "x")
	r.await1(st.asked)
	w.end()
	assert.Zero(t, r.count("acked")+r.count("retried"))
}

// deaf never answers a release.
type deaf struct {
	onefold.Store
	asked chan struct{}
}

func (d *deaf) Release(ctx context.Context, _ *onefold.Claim, _ onefold.Failure) error {
	d.asked <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func TestStoppingWhileTheServerIsAwayEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.config(nothing)
	c.ShutdownTimeout = 50 * time.Millisecond
	w := r.start(c)
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	r.srv.Stop()
	require.Eventually(t, func() bool { return !r.nc.IsConnected() }, 10*time.Second, time.Millisecond)
	w.end()
}

func TestAConsumerThatNeverStartedEndsInPeace(t *testing.T) {
	r := newRig(t)
	work, err := consumer.New(r.js, r.st, r.config(nothing))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	require.NoError(t, work.Run(ctx))
}

func TestADeadLetterIsAckedOnlyAfterTheRelayHasSentItAlsoOverARestart(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	h := func(context.Context, *onefold.Message, *onefold.Effects) error {
		runs.Add(1)
		return onefold.Permanent(errors.New("cannot be"))
	}
	w := r.start(r.config(h))
	r.publish("one", "x")
	r.awaitCount("dead", 1)
	assert.Zero(t, r.count("acked"))
	assert.Equal(t, 1, r.info().NumAckPending, "the server still has it")
	w.end() // nobody has sent the dead letter
	r.reopen()
	w = r.start(r.config(h))
	r.awaitCount("received", 2)
	assert.Zero(t, r.count("acked"))
	relay := r.relay()
	r.awaitCount("acked", 1)
	r.settled()
	w.end()
	relay.end()
	assert.EqualValues(t, 1, runs.Load())
	assert.Equal(t, 1, r.stored("ONEFOLD_DEAD"))
}

func TestDeadLettersThatCannotLeaveDoNotStopOtherMessages(t *testing.T) {
	r := newRig(t)
	c := r.config(func(_ context.Context, m *onefold.Message, _ *onefold.Effects) error {
		if string(m.Data) == "bad" {
			return onefold.Permanent(errors.New("no"))
		}
		return nil
	})
	w := r.start(c) // and no relay
	for i := range 40 {
		r.publish("bad"+string(rune('a'+i)), "bad")
	}
	r.awaitCount("dead", 40)
	r.publish("good", "good")
	r.awaitCount("acked", 1)
	w.end()
	assert.Equal(t, 40, r.count("given back"), "at shutdown they go back to the stream")
}
