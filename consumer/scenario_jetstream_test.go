package consumer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// shared lets two consumers with one scope use the store, as one for several processes does.
func shared(st onefold.Store) *faulty {
	return &faulty{Store: st, info: func(i *onefold.Info) { i.OneProcess = false }}
}

func TestScenario_J01_TwoReplicasWithSlowHandlersRunEachIDOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	st := shared(r.st)
	var runs [20]atomic.Int64
	c := r.config(func(ctx context.Context, m *onefold.Message, _ *onefold.Effects) error {
		runs[m.Sequence-1].Add(1)
		return after(ctx, 900*time.Millisecond) // most of AckWait
	})
	c.AckWait, c.Concurrency = time.Second, 4
	for i := range runs {
		r.publish(string(rune('a'+i)), "x")
	}
	_, js := r.srv.Connect(t)
	one, two := r.startOn(r.js, st, c), r.startOn(js, st, c)
	r.awaitCount("acked", len(runs))
	r.settled()
	one.end()
	two.end()
	for i := range runs {
		assert.EqualValues(t, 1, runs[i].Load(), "message %d", i+1)
	}
}

// after waits for a timer or the end of ctx.
func after(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestScenario_J02_AWorkerThatLostItsClaimSendsNoAnswer(t *testing.T) {
	r, g := newRig(t), newGate()
	var first atomic.Bool
	var old atomic.Pointer[onefold.Claim]
	st := &faulty{Store: r.st, renew: func(c *onefold.Claim) error {
		if !first.Swap(true) {
			old.Store(c)
			return onefold.ErrLost
		}
		return nil
	}}
	c := r.config(func(context.Context, *onefold.Message, *onefold.Effects) error {
		_ = g.pass(context.Background())
		return errors.New("would be nak'ed")
	})
	c.AckWait, c.Lease, c.Concurrency = 10*time.Second, 600*time.Millisecond, 1
	w := r.startOn(r.js, st, c)
	answers, err := r.nc.SubscribeSync("$JS.ACK.IN.work.>")
	require.NoError(t, err)
	r.publish("one", "x")
	r.awaitCount("lost", 1)
	close(g.open)
	r.awaitCount("handled", 1)
	w.end()
	require.NoError(t, r.nc.Flush())
	n, _, err := answers.Pending()
	require.NoError(t, err)
	assert.Zero(t, n, "no ack, nak, term or progress")
	assert.Zero(t, r.count("retried")+r.count("acked")+r.count("given back"))
	assert.Equal(t, 1, r.info().NumAckPending)
}

func TestScenario_J03_ARedeliveryAfterAnAckIsAnOrdinaryDuplicate(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	w := r.start(r.config(counting(&runs)))
	seq := r.publish("one", "x")
	r.awaitCount("acked", 1)
	r.settled()
	w.end()
	_, err := r.nc.Request("$JS.API.CONSUMER.RESET.IN.work", []byte(`{"seq":1}`), 5*time.Second)
	require.NoError(t, err)
	r.forgetFloor()
	w = r.start(r.config(counting(&runs)))
	r.awaitCount("duplicate", 1)
	r.settled()
	w.end()
	assert.EqualValues(t, 1, runs.Load())
	assert.Equal(t, seq, r.events("duplicate")[0].event.Sequence)
}

func TestScenario_J06_AServerThatForgetsItsIDsIsNoSecondRun(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{Name: "QUEUE", Subjects: []string{"queue"}, Retention: jetstream.WorkQueuePolicy})
	var runs atomic.Int64
	c := r.config(counting(&runs))
	c.Stream = "QUEUE"
	w := r.start(c)
	m := func() *nats.Msg {
		return &nats.Msg{Subject: "queue", Data: []byte("x"), Header: nats.Header{"Nats-Msg-Id": {"1"}}}
	}
	r.send(m())
	r.awaitCount("acked", 1)
	require.Eventually(t, func() bool { return r.stored("QUEUE") == 0 }, 10*time.Second, 10*time.Millisecond)
	r.srv.Restart(t)
	require.Eventually(t, func() bool {
		ack, err := r.js.PublishMsg(r.ctx, m())
		return err == nil && !ack.Duplicate
	}, 10*time.Second, 10*time.Millisecond)
	r.awaitCount("duplicate", 1)
	w.end()
	assert.EqualValues(t, 1, runs.Load())
}

func TestScenario_J15_StoppingUnderLoadRunsNoFinishedMessageTwice(t *testing.T) {
	r := newRig(t)
	const messages = 500
	var runs [messages]atomic.Int64
	h := func(_ context.Context, m *onefold.Message, _ *onefold.Effects) error {
		runs[m.Sequence-1].Add(1)
		return nil
	}
	for i := range messages {
		_, err := r.js.PublishMsgAsync(&nats.Msg{Subject: "in.a", Header: nats.Header{onefold.HeaderID: {nats.NewInbox()}}, Data: []byte{byte(i)}})
		require.NoError(t, err)
	}
	<-r.js.PublishAsyncComplete()
	for n := 50; n < messages; n += 100 { // stop and start again in the middle, five times
		w := r.start(r.config(h))
		r.awaitCount("acked", n)
		w.end()
	}
	w := r.start(r.config(h))
	r.settled()
	w.end()
	for i := range runs {
		assert.EqualValues(t, 1, runs[i].Load(), "message %d", i+1)
	}
	assert.Equal(t, messages, r.count("acked"))
}

func TestScenario_J16_ACleanStopGivesUnstartedMessagesBackAtOnce(t *testing.T) {
	r, g := newRig(t), newGate()
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) })
	c.Concurrency, c.AckWait = 2, 10*time.Minute
	for i := range 4 {
		r.publish(string(rune('a'+i)), "x")
	}
	w := r.start(c)
	r.awaitCount("received", 4)
	r.await1(g.entered)
	r.await1(g.entered)
	w.stop()
	r.awaitCount("given back", 2) // while both handlers still run
	close(g.open)
	require.NoError(t, w.err())
	assert.Equal(t, 2, r.count("acked"))

	g = newGate()
	close(g.open)
	w = r.start(c) // within ten minutes
	r.awaitCount("acked", 4)
	w.end()
}

func TestScenario_O02_EffectsOfARerunHaveTheIDsOfTheFirstRun(t *testing.T) {
	r := newRig(t)
	r.output()
	var runs atomic.Int64
	st := &faulty{Store: r.st}
	ids := make(chan []string, 2)
	st.commit = func(batch []*onefold.Commit) error {
		var all []string
		for _, e := range batch[0].Entry.Effects {
			all = append(all, e.ID)
		}
		ids <- all
		return nil
	}
	first := true
	w := r.startOn(r.js, st, r.config(func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		_, _, err := fx.Get(ctx, "t", "k")
		fx.Publish("out.a", "a")
		fx.Publish("out.b", "b")
		if first { // the state that it has read moves: the commit is refused and it runs again
			first = false
			c := onefold.Commit{Entry: onefold.Entry{Writes: []onefold.Write{{Table: "t", Key: "k", Value: []byte("x")}}}}
			if err := r.st.Commit(ctx, []*onefold.Commit{&c}); err != nil {
				return err
			}
		}
		runs.Add(1)
		return err
	}))
	relay := r.relay()
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	r.read("OUT", 2)
	relay.end()
	assert.EqualValues(t, 2, runs.Load())
	assert.Equal(t, <-ids, <-ids)
	assert.Equal(t, 2, r.stored("OUT"))
	assert.Equal(t, 1, r.events("acked")[0].event.Attempt, "a conflict is no attempt")
}
