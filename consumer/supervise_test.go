package consumer_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

// opened is the state event of the n-th time that a consumer had to open a session again.
func (r *rig) opened(n int) onefold.StateEvent {
	r.t.Helper()
	r.awaitCount("state waiting to start", n)
	return r.events("state waiting to start")[n-1].state
}

func TestADurableThatIsDeletedIsMadeAgainBehindWhatIsSettled(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	w := r.start(r.config(counting(&runs)))
	r.publishMany(10, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	r.awaitCount("acked", 10)
	r.settled()
	// The floor is stored before a session ends, and once a second before that.
	require.Eventually(t, func() bool { return r.storedFloor() == 10 }, 10*time.Second, 10*time.Millisecond)
	r.deleteConsumer() // a pull is open
	assert.ErrorIs(t, r.opened(1).Err, jetstream.ErrConsumerDeleted)
	r.awaitCount("state running", 2)
	assert.EqualValues(t, 11, r.info().Config.OptStartSeq)
	r.publish("last", "x")
	r.awaitCount("acked", 11)
	w.end()
	assert.EqualValues(t, 11, runs.Load())
	assert.Equal(t, 11, r.count("received"), "nothing that was settled is delivered again")
}

// storedFloor is the position of the floor in the store.
func (r *rig) storedFloor() uint64 {
	r.t.Helper()
	v, err := r.st.Read(r.ctx, "onefold.floor", "IN/work")
	require.NoError(r.t, err)
	return consumer.FloorIn(v.Data)
}

func TestADurableThatIsDeletedWhileNothingIsAskedForIsMadeAgainAndWhatRanIsKept(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGate()
	var runs atomic.Int64
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error {
		runs.Add(1)
		return g.pass(ctx)
	})
	c.Concurrency, c.MaxAckPending, c.AckWait = 1, 1, 2*time.Second
	w := r.start(c)
	r.publish("one", "x")
	r.publish("two", "x")
	r.await1(g.entered) // the only message that may be out: nothing is asked for
	r.deleteConsumer()
	r.awaitCount("state draining", 1)
	close(g.open)
	r.awaitCount("state running", 2)
	r.awaitCount("committed", 2)
	r.settled()
	w.end()
	assert.EqualValues(t, 2, runs.Load(), "what ran when the durable vanished was committed and is a duplicate now")
}

func TestADurableThatWasToStartWithNewMessagesSkipsNoneWhenItIsMadeAgain(t *testing.T) {
	r := newRig(t)
	r.publish("before", "x")
	c := r.config(nothing)
	c.DeliverPolicy = jetstream.DeliverNewPolicy
	w := r.start(c)
	r.awaitCount("state running", 1)
	w.end() // nothing has been settled
	r.deleteConsumer()
	r.publish("while it was lost", "x")
	w = r.start(c)
	r.awaitCount("acked", 1)
	r.settled()
	w.end()
	assert.EqualValues(t, 2, r.events("acked")[0].event.Sequence)
	assert.Equal(t, 1, r.count("received"))
}

func TestAStreamThatIsGoneIsWaitedForAndWhatItLostIsSaid(t *testing.T) {
	r := newRig(t)
	warned := make(chan onefold.WarnEvent, 16)
	c := r.config(nothing)
	c.Observer.Warned = func(e onefold.WarnEvent) { warned <- e }
	w := r.start(c)
	r.publishMany(3, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	r.awaitCount("acked", 3)
	r.settled()
	require.Eventually(t, func() bool { return r.storedFloor() == 3 }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, r.js.DeleteStream(r.ctx, "IN"))
	r.opened(1)
	r.stream(jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	r.publish("new", "x")
	r.publish("0", "x") // was done in the former stream
	r.awaitCount("acked", 4)
	r.awaitCount("duplicate", 1)
	w.end()
	assert.Contains(t, warning(warned, "made anew"), "positions up to 3 had been seen")
}

// warning is the first warning that contains text.
func warning(warned chan onefold.WarnEvent, text string) string {
	close(warned)
	for e := range warned {
		if strings.Contains(e.Text, text) {
			return e.Text
		}
	}
	return ""
}

func TestAStreamThatStaysAwayEndsRunAfterTheStatedTime(t *testing.T) {
	r := newRig(t)
	c := r.config(nothing)
	c.LostTimeout = 20 * time.Millisecond
	w := r.start(c)
	r.awaitCount("state running", 1)
	require.NoError(t, r.js.DeleteStream(r.ctx, "IN"))
	require.ErrorIs(t, w.err(), jetstream.ErrStreamNotFound)
	assert.Equal(t, 1, r.count("state stopped"))
}

func TestALostDurableOfSomebodyElseIsWaitedForAndNeverMade(t *testing.T) {
	foreign := jetstream.ConsumerConfig{Durable: "work", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "in.a"}
	lose := func(t *testing.T, limit time.Duration) (*rig, *running) {
		r := newRig(t)
		_, err := r.js.CreateConsumer(r.ctx, "IN", foreign)
		require.NoError(t, err)
		c := r.config(nothing)
		c.LostTimeout = limit
		w := r.start(c)
		r.publish("one", "x")
		r.awaitCount("acked", 1)
		r.deleteConsumer()
		r.opened(1)
		return r, w
	}
	t.Run("until it is back", func(t *testing.T) {
		r, w := lose(t, time.Minute)
		_, err := r.js.CreateConsumer(r.ctx, "IN", foreign)
		require.NoError(t, err)
		r.publish("two", "x")
		r.awaitCount("acked", 2)
		w.end()
	})
	t.Run("for the stated time, and a restart does not make it either", func(t *testing.T) {
		r, w := lose(t, 20*time.Millisecond)
		require.ErrorIs(t, w.err(), jetstream.ErrConsumerNotFound)
		err := r.start(r.config(nothing)).err()
		require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
		assert.ErrorContains(t, err, "Config.AdoptDurable")
		c := r.config(nothing)
		c.AdoptDurable = true
		w = r.start(c)
		r.publish("two", "x")
		r.awaitCount("acked", 2)
		w.end()
	})
}

func TestADurableThatWasReplacedUnderARunningSessionIsTakenUpAnew(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGate()
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) })
	c.Concurrency, c.MaxAckPending = 1, 1
	w := r.start(c)
	r.publish("one", "x")
	r.await1(g.entered) // nothing is asked for: nobody tells us
	r.deleteConsumer()
	_, err := r.js.CreateConsumer(r.ctx, "IN", jetstream.ConsumerConfig{Durable: "work", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	r.awaitCount("state draining", 1)
	close(g.open)
	r.awaitCount("state running", 2)
	r.settled()
	w.end()
	assert.Equal(t, 1, r.count("committed"))
}

func TestAPausedDurableIsWaitedFor(t *testing.T) {
	r := newRig(t)
	w := r.start(r.config(nothing))
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	_, err := r.js.PauseConsumer(r.ctx, "IN", "work", time.Now().Add(time.Hour))
	require.NoError(t, err)
	r.publish("two", "x")
	assert.True(t, r.info().Paused)
	_, err = r.js.ResumeConsumer(r.ctx, "IN", "work")
	require.NoError(t, err)
	r.awaitCount("acked", 2)
	w.end()
	assert.Equal(t, 1, r.count("state running"), "no session had to be opened again")
}

func TestScenario_J17_AClosedConnectionIsAnErrorAndALostOneAState(t *testing.T) {
	t.Run("closed, while nothing is asked for and a handler runs", func(t *testing.T) {
		r, g := newRig(t), newGate()
		nc, js := r.srv.Connect(t)
		c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) })
		c.Concurrency, c.MaxAckPending = 1, 1
		w := r.startOn(js, r.st, c)
		r.publish("one", "x")
		r.await1(g.entered)
		nc.Close()
		r.awaitCount("state draining", 1) // although the handler has not returned
		close(g.open)
		require.ErrorIs(t, w.err(), jetstream.ErrConnectionClosed)
	})
	for name, x := range map[string]struct {
		option nats.Option
		warns  bool
	}{
		"lost, by a client that does not give up": {nats.MaxReconnects(-1), false},
		"lost, by a client that gives up":         {nats.MaxReconnects(100_000), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			_, js := r.srv.Connect(t, x.option)
			w := r.startOn(js, r.st, r.config(nothing))
			r.publish("one", "x")
			r.awaitCount("acked", 1)
			r.srv.Stop()
			r.awaitCount("state waiting for the server", 1)
			e := r.events("state waiting for the server")[0].state
			require.ErrorIs(t, e.Err, nats.ErrDisconnected)
			assert.Equal(t, x.warns, strings.Contains(e.Err.Error(), "MaxReconnects(-1)"), "%v", e.Err)
			require.NoError(t, r.srv.StartAgain())
			r.awaitCount("state running", 2)
			require.Eventually(t, r.nc.IsConnected, 10*time.Second, time.Millisecond)
			r.publish("two", "x")
			r.awaitCount("acked", 2)
			w.end()
		})
	}
}

func TestADurableThatWeMakeCarriesThresholdsForMonitoring(t *testing.T) {
	r := newRig(t)
	c := r.config(nothing)
	c.MaxAckPending = 100
	w := r.start(c)
	r.awaitCount("state running", 1)
	w.end()
	got := r.info().Config.Metadata
	for key, want := range map[string]string{"enabled": "true", "outstanding-ack-critical": "100", "redelivery-critical": "50", "waiting-critical": "256"} {
		assert.Equal(t, want, got["io.nats.monitor."+key], key)
	}
}

func TestAServerThatIsKilledAndRestartedUnderLoadLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const messages = 300
	var runs [messages]atomic.Int64
	c := r.config(func(_ context.Context, m *onefold.Message, _ *onefold.Effects) error {
		i, err := strconv.Atoi(m.Header.Get(onefold.HeaderID))
		runs[i].Add(1)
		return err
	})
	c.AckWait = time.Second // what is on its way when the server ends comes again after it
	w := r.start(c)
	r.awaitCount("state running", 1)
	for i := range messages {
		if i%100 == 50 {
			r.srv.Stop()
			r.awaitCount("state waiting for the server", i/100+1)
			require.NoError(t, r.srv.StartAgain())
		}
		require.Eventually(t, func() bool { return r.offer(fmt.Sprint(i)) == nil }, 20*time.Second, 5*time.Millisecond)
	}
	r.awaitCount("committed", messages) // a server that has just started may say that nothing is pending
	r.settled()
	w.end()
	for i := range runs {
		assert.EqualValues(t, 1, runs[i].Load(), "message %d", i)
	}
	assert.Equal(t, messages, r.count("committed"))
	assert.Equal(t, 1, r.count("state draining"), "one session lived through it")
}

// offer publishes under id, which also is the transport ID: it may be repeated.
func (r *rig) offer(id string) error {
	ctx, cancel := context.WithTimeout(r.ctx, time.Second)
	defer cancel()
	_, err := r.js.PublishMsg(ctx, &nats.Msg{Subject: "in.a", Header: nats.Header{onefold.HeaderID: {id}}}, jetstream.WithMsgID(id))
	return err
}

func TestAServerThatComesBackEmptyIsServedOnAndWhatItLostIsSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	warned := make(chan onefold.WarnEvent, 16)
	var runs atomic.Int64
	c := r.config(counting(&runs))
	c.Observer.Warned = func(e onefold.WarnEvent) { warned <- e }
	w := r.start(c)
	r.publishMany(50, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	r.awaitCount("acked", 50)
	r.settled()
	require.Eventually(t, func() bool { return r.storedFloor() == 50 }, 10*time.Second, 10*time.Millisecond)
	r.srv.Stop()
	require.NoError(t, r.srv.Wipe())
	require.NoError(t, r.srv.StartAgain())
	require.Eventually(t, r.nc.IsConnected, 10*time.Second, time.Millisecond)
	r.opened(1)
	r.stream(jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	for i := range 60 { // the producers send all again, and ten more
		r.publish(strconv.Itoa(i), "x")
	}
	r.awaitCount("acked", 60)
	r.awaitCount("duplicate", 50)
	w.end()
	assert.EqualValues(t, 60, runs.Load(), "the store still knows what is done")
	assert.Contains(t, warning(warned, "made anew"), "positions up to 50 had been seen")
}
