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
	"golang.org/x/time/rate"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/store/memstore"
)

// This file is about features that meet: each works by itself, and has to beside the others.

func (r *rig) claimed() (sequences []uint64) {
	for _, x := range r.events("claimed") {
		sequences = append(sequences, x.event.Sequence)
	}
	return sequences
}

func TestADurableThatBeganBeforeTheFirstMessageSkipsNoneWhenItIsMadeAgain(t *testing.T) {
	r := newRig(t)
	c := r.config(nothing)
	c.DeliverPolicy = jetstream.DeliverNewPolicy
	w := r.start(c)
	r.awaitCount("state running", 1)
	w.end()
	r.deleteConsumer()
	r.publish("while it was lost", "x")
	w = r.start(c)
	r.publish("after", "x")
	r.awaitCount("acked", 2)
	w.end()
}

func TestACopyForAnotherConsumerAtTheAckFloorRefusesNoRestart(t *testing.T) {
	r := newRig(t)
	c := r.config(nothing)
	r.publish("old", "x")
	c.DeliverPolicy = jetstream.DeliverNewPolicy
	w := r.start(c)
	r.awaitCount("state running", 1)
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	r.send(&nats.Msg{Subject: "in.a", Data: []byte("x"), Header: nats.Header{onefold.HeaderID: {"old"},
		consumer.HeaderRedriveFor: {"IN/other"}, consumer.HeaderRedriveScope: {"IN/other"}, consumer.HeaderRedriveID: {"old"}, consumer.HeaderRedriveGen: {"1"}}})
	r.awaitCount("duplicate", 1)
	r.settled()
	w.end()
	w = r.start(c)
	r.awaitCount("state running", 2)
	w.end()
}

func TestWhatArrivesDuringAPauseHoldsItsKey(t *testing.T) {
	r := newRig(t)
	c := r.config(nothing)
	c.OrderBy = func(*onefold.Message) string { return "k" }
	var work *consumer.Consumer
	var once atomic.Bool
	received := c.Observer.Received
	c.Observer.Received = func(e onefold.DeliveryEvent) {
		received(e)
		if once.CompareAndSwap(false, true) {
			work.Pause()
		}
	}
	work = r.consumer(c)
	w := r.run(work)
	r.awaitCount("state running", 1)
	r.publish("first", "1")
	r.awaitCount("given back", 1)
	r.publish("second", "2")
	work.Resume()
	r.awaitCount("acked", 2)
	w.end()
	assert.Equal(t, []uint64{1, 2}, r.claimed())
}

func TestWhatWaitsBehindASuspectIsGivenBackWhenTheConsumerPauses(t *testing.T) {
	r, g := newRig(t), newGate()
	r.cutShort("suspect", 1)
	r.publish("suspect", "suspect")
	work := r.consumer(r.config(func(ctx context.Context, m *onefold.Message, _ *onefold.Effects) error {
		if string(m.Data) == "suspect" {
			return g.pass(ctx)
		}
		return nil
	}))
	w := r.run(work)
	r.await1(g.entered)
	r.publish("a", "x")
	r.awaitCount("received", 2)
	work.Pause()
	close(g.open)
	r.await("the end of both", func(c map[string]int) bool { return c["acked"] == 1 && c["retried"]+c["given back"] > 0 })
	assert.Equal(t, 1, r.count("claimed"))
	work.Resume()
	r.awaitCount("acked", 2)
	w.end()
}

// The process lives on, so the start that has lost its claim has not killed it.
func TestAStartThatHasLostItsClaimInALivingProcessIsNoDeath(t *testing.T) {
	r := newRig(t)
	r.cutShort("suspect", 1)
	r.publish("suspect", "x")
	var stalled atomic.Bool
	stalled.Store(true)
	st := &faulty{Store: r.st}
	st.renew = func(c *onefold.Claim) error {
		if c.Key.ID != "suspect" || !stalled.Load() {
			return nil
		}
		other, err := r.st.Begin(r.ctx, onefold.Request{Key: c.Key, Lease: time.Second, Holder: onefold.Holder{Process: 9, Attempt: 9}})
		if err != nil || other.Verdict != onefold.Granted {
			return onefold.ErrUnavailable // the lease goes on
		}
		stalled.Store(false)
		return errors.Join(onefold.ErrLost, r.st.Release(r.ctx, other.Claim, onefold.Failure{}))
	}
	var runs atomic.Int64
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error {
		if runs.Add(1) == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	c.AckWait, c.Lease = time.Second, 300*time.Millisecond
	w := r.startOn(r.js, st, c)
	r.await("an end", func(m map[string]int) bool { return m["dead"]+m["acked"] > 0 })
	w.end()
	assert.Equal(t, 1, r.count("lost"))
	assert.Zero(t, r.count("dead"))
}

func TestAStartThatWasCountedUnheardIsTakenBack(t *testing.T) {
	r := newRig(t)
	st := &faulty{Store: r.st}
	var answers atomic.Bool
	st.begin = func(q onefold.Request) error {
		if answers.Load() {
			return nil
		}
		if _, err := r.st.Begin(r.ctx, q); err != nil {
			return err
		}
		return onefold.ErrUnknown
	}
	var runs atomic.Int64
	c := r.config(counting(&runs))
	c.ParkUnknown, c.AckWait, c.Lease = true, 600*time.Millisecond, 400*time.Millisecond
	w := r.startOn(r.js, st, c)
	r.publish("one", "x")
	r.awaitCount("given back", 1)
	answers.Store(true)
	r.await("an end", func(m map[string]int) bool { return m["dead"]+m["acked"] > 0 })
	w.end()
	assert.Zero(t, r.count("dead"))
	assert.EqualValues(t, 1, runs.Load())
}

func TestAZombieDoesNotKeepAVanishedDurableFromBeingMadeAgain(t *testing.T) {
	r, g := newRig(t), newGate()
	c := r.config(g.deafTo("hang", nothing))
	c.HandlerTimeout, c.RetryMin, c.RetryMax = 50*time.Millisecond, time.Hour, time.Hour
	w := r.start(c)
	r.publish("one", "hang")
	r.awaitCount("retried", 1)
	r.deleteConsumer()
	r.awaitCount("state running", 2)
	close(g.open)
	w.end()
}

func TestTroubleThatWasWaitedOutIsNoReasonForTheEnd(t *testing.T) {
	r := newRig(t)
	st := &faulty{Store: r.st}
	var once atomic.Bool
	st.begin = func(onefold.Request) error {
		if once.CompareAndSwap(false, true) {
			return onefold.ErrUnavailable
		}
		return nil
	}
	work, err := consumer.New(r.js, st, r.config(nothing))
	require.NoError(t, err)
	w := r.run(work)
	r.publish("a", "x")
	r.awaitCount("acked", 1)
	r.awaitCount("state running", 2)
	w.end()
	assert.True(t, work.Health(r.ctx).Live())
}

func TestAVerdictThatWasOvertakenIsNotToldOfTheOneThatCounts(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	w := r.start(r.config(func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		if _, _, err := fx.Get(ctx, "counters", "a"); err != nil {
			return err
		}
		if runs.Add(1) == 1 {
			if err := r.write("counters", "a"); err != nil {
				return err
			}
			return onefold.Permanent(errors.New("the state says no"))
		}
		return nil
	}))
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	e := r.events("acked")[0].event
	assert.Equal(t, onefold.Succeeded, e.Outcome)
	assert.Equal(t, onefold.ClassNone, e.Class)
	assert.NoError(t, e.Err)
}

func TestWhatWasGivenBackTakesNoToken(t *testing.T) {
	r, g := newRig(t), newGate()
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) })
	c.Concurrency, c.RateLimit = 1, rate.NewLimiter(rate.Every(time.Hour), 4)
	work := r.consumer(c)
	w := r.run(work)
	r.publish("long", "x")
	r.await1(g.entered)
	r.publish("a", "x")
	r.awaitCount("received", 2)
	work.Pause()
	r.awaitCount("given back", 1)
	close(g.open)
	r.awaitCount("acked", 1)
	w.end()
	assert.Greater(t, c.RateLimit.Tokens(), 2.9)
}

func TestARehearsalHasNoOrderAndSendsNoAnswers(t *testing.T) {
	st := memstore.New()
	t.Cleanup(func() { _ = st.Close(context.Background()) })
	r, err := consumer.NewRehearsal(st, consumer.Config{Stream: "S", Name: "n", Handler: nothing, OrderBy: func(*onefold.Message) string { return "k" }})
	require.NoError(t, err)
	defer r.Close()
	answer := r.Deliver(&onefold.Message{Subject: "a", Sequence: 1, Time: time.Now(),
		Header: onefold.Header{onefold.HeaderID: {"1"}, consumer.HeaderReplyTo: {nats.InboxPrefix + "x"}}})
	assert.True(t, answer().Acked)
}

func TestSettingsThatContradictEachOtherAreRefused(t *testing.T) {
	r := newRig(t)
	for want, change := range map[string]func(*consumer.Config){
		"BindOnly and AdoptDurable":   func(c *consumer.Config) { c.BindOnly, c.AdoptDurable = true, true },
		`"in.>" and "in.a"`:           func(c *consumer.Config) { c.FilterSubjects = []string{"in.>", "in.a"} },
		`DeadLetterStream is "IN"`:    func(c *consumer.Config) { c.DeadLetterStream = "IN" },
		`Scope is "onefold.consumer"`: func(c *consumer.Config) { c.Scope = "onefold.consumer" },
	} {
		c := r.config(nothing)
		change(&c)
		_, err := consumer.New(r.js, r.st, c)
		require.ErrorIs(t, err, onefold.ErrInvalid, want)
		assert.ErrorContains(t, err, want)
	}
}
