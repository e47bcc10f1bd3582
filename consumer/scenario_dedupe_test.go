package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

// counting returns a handler that counts its runs and emits one message each.
func counting(runs *atomic.Int64) onefold.Handler {
	return func(_ context.Context, m *onefold.Message, fx *onefold.Effects) error {
		runs.Add(1)
		fx.Publish("out.a", m.Data)
		return nil
	}
}

func (r *rig) output() {
	r.t.Helper()
	r.stream(jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}})
}

func TestScenario_D01_FiftyCopiesAtOnceRunOnceAndNoneIsAckedBeforeTheCommit(t *testing.T) {
	r, g := newRig(t), newGate()
	for range 50 {
		r.publish("one", "x")
	}
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) })
	c.Concurrency = 50
	w := r.start(c)
	r.await1(g.entered)
	r.awaitCount("followed", 49)
	assert.Zero(t, r.count("acked")+r.count("duplicate"), "nobody is acked before the effect is committed")
	close(g.open)
	r.await("all answered", func(c map[string]int) bool { return c["acked"]+c["duplicate"] == 50 })
	r.settled()
	w.end()
	assert.Equal(t, 1, r.count("claimed"))
	assert.Equal(t, 1, r.count("acked"))
	assert.Equal(t, 49, r.count("duplicate"))
}

func TestScenario_D04_AFailedRunLeavesNoMark(t *testing.T) {
	r := newRig(t)
	r.output()
	var runs atomic.Int64
	w := r.start(r.config(func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		fx.Publish("out.a", "effect")
		if runs.Add(1) == 1 {
			return errors.New("not now")
		}
		return nil
	}))
	relay := r.relay()
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	r.settled()
	w.end()
	r.read("OUT", 1)
	relay.end()
	assert.EqualValues(t, 2, runs.Load())
	assert.Equal(t, 1, r.count("retried"))
	assert.Equal(t, 1, r.stored("OUT"))
	assert.Equal(t, 2, r.events("acked")[0].event.Attempt)
}

func TestScenario_D05_ARetryInsideTheHandlerGivesOneEffect(t *testing.T) {
	r := newRig(t)
	r.output()
	var tries atomic.Int64
	retrying := func(next onefold.Handler) onefold.Handler {
		return func(ctx context.Context, m *onefold.Message, fx *onefold.Effects) error {
			err := next(ctx, m, fx)
			if err != nil {
				err = next(ctx, m, fx)
			}
			return err
		}
	}
	w := r.start(r.config(retrying(func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		if tries.Add(1) == 1 {
			return errors.New("not now")
		}
		fx.Publish("out.a", "effect")
		return nil
	})))
	relay := r.relay()
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	r.read("OUT", 1)
	relay.end()
	assert.Equal(t, 1, r.count("claimed"))
	assert.Equal(t, 1, r.stored("OUT"))
}

func TestScenario_D06_AStoreErrorBetweenClaimAndCommitIsNoAck(t *testing.T) {
	r := newRig(t)
	var failures atomic.Int64
	st := &faulty{Store: r.st, commit: func([]*onefold.Commit) error {
		if failures.Add(1) <= 3 {
			assert.Zero(t, r.count("acked"))
			return onefold.ErrUnavailable
		}
		return nil
	}}
	var runs atomic.Int64
	w := r.startOn(r.js, st, r.config(counting(&runs)))
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	assert.EqualValues(t, 1, runs.Load())
	assert.EqualValues(t, 4, failures.Load())
	assert.Equal(t, 1, r.count("committed"))
}

func TestScenario_D07_EqualPayloadsWithDifferentIDsBothRun(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	w := r.start(r.config(counting(&runs)))
	r.publish("one", "same")
	r.publish("two", "same")
	r.awaitCount("acked", 2)
	w.end()
	assert.EqualValues(t, 2, runs.Load())
}

func TestScenario_D08_TwoConsumersOfOneStoreDoNotHideMessagesFromEachOther(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other"}})
	var first, second, other atomic.Int64
	a, b := r.config(counting(&first)), r.config(counting(&second))
	b.Name = "audit"
	c := r.config(counting(&other))
	c.Stream = "OTHER" // a durable name is unique in one stream only
	all := []*running{r.start(a), r.start(b), r.start(c)}
	r.publish("one", "x")
	r.send(&nats.Msg{Subject: "other", Data: []byte("y"), Header: nats.Header{onefold.HeaderID: {"one"}}})
	r.awaitCount("acked", 3)
	for _, w := range all {
		w.end()
	}
	assert.EqualValues(t, 1, first.Load())
	assert.EqualValues(t, 1, second.Load())
	assert.EqualValues(t, 1, other.Load())
}

func TestScenario_D10_TwoMessagesWithoutAnIDNeverFoldIntoOne(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	w, relay := r.start(r.config(counting(&runs))), r.relay()
	r.send(&nats.Msg{Subject: "in.a", Data: []byte("same")})
	r.send(&nats.Msg{Subject: "in.a", Data: []byte("same"), Header: nats.Header{onefold.HeaderID: {"  "}}})
	r.awaitCount("acked", 2)
	r.settled()
	w.end()
	relay.end()
	assert.Zero(t, runs.Load())
	for _, m := range r.read("ONEFOLD_DEAD", 2) {
		assert.Equal(t, "missing id", m.Headers().Get("Onefold-Dead-Class"))
		assert.Contains(t, m.Headers().Get("Onefold-Dead-Reason"), "missing id")
		assert.Equal(t, "same", string(m.Data()))
	}
}

func TestScenario_D10_MessagesWithoutAnIDCanTakeTheirPosition(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	c := r.config(counting(&runs))
	c.ID = dedupe.FirstOf(dedupe.DefaultID, dedupe.PositionID)
	w := r.start(c)
	r.send(&nats.Msg{Subject: "in.a", Data: []byte("same")})
	r.send(&nats.Msg{Subject: "in.a", Data: []byte("same")})
	r.awaitCount("acked", 2)
	w.end()
	assert.EqualValues(t, 2, runs.Load())
}

func TestScenario_D17_ALostAckCostsAnAckAndNoRun(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	w := r.start(r.config(counting(&runs)))
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	r.settled()
	w.end()
	// A durable made anew stands for a server that has lost the ack.
	r.deleteConsumer()
	r.forgetFloor()
	w = r.start(r.config(counting(&runs)))
	r.awaitCount("duplicate", 1)
	r.settled()
	w.end()
	assert.EqualValues(t, 1, runs.Load())
}

// deleteConsumer has the server forget all acks.
func (r *rig) deleteConsumer() {
	r.t.Helper()
	require.NoError(r.t, r.js.DeleteConsumer(r.ctx, "IN", "work"))
}

// forgetFloor deletes the floor, so that records alone decide.
func (r *rig) forgetFloor() {
	r.t.Helper()
	c := onefold.Commit{Entry: onefold.Entry{Writes: []onefold.Write{{Table: "onefold.floor", Key: "IN/work", Delete: true}}}}
	require.NoError(r.t, r.st.Commit(r.ctx, []*onefold.Commit{&c}))
	require.NoError(r.t, c.Err)
}

func TestScenario_D19_ADuplicateIsToldApartFromARun(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	w := r.start(r.config(counting(&runs)))
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	r.publish("one", "x")
	r.awaitCount("duplicate", 1)
	w.end()
	assert.Equal(t, 1, r.count("committed"))
	assert.Equal(t, 1, r.count("acked"))
	assert.EqualValues(t, 2, r.events("duplicate")[0].event.Sequence)
}

func TestScenario_D20_EffectsOfAFailedRunVanish(t *testing.T) {
	r := newRig(t)
	r.output()
	var runs atomic.Int64
	w := r.start(r.config(func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		n := runs.Add(1)
		fx.Publish("out.a", fmt.Sprintf("run %d", n))
		fx.Put("table", "key", []byte(fmt.Sprint(n)))
		if n < 3 {
			return errors.New("later step failed")
		}
		return nil
	}))
	relay := r.relay()
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	assert.Equal(t, `"run 3"`, string(r.read("OUT", 1)[0].Data()))
	relay.end()
	assert.Equal(t, 1, r.stored("OUT"))
	v, err := r.st.Read(r.ctx, "table", "key")
	require.NoError(t, err)
	assert.Equal(t, "3", string(v.Data))
}

func TestScenario_D21_AnUnknownCommitIsRepeatedUntilKnownAndNeverRunAgain(t *testing.T) {
	r := newRig(t)
	r.output()
	var answers, runs atomic.Int64
	st := &faulty{Store: r.st, answered: func(batch []*onefold.Commit) {
		if answers.Add(1) <= 3 { // stored, and the answer is lost
			assert.Zero(t, r.count("acked"))
			batch[0].Err = onefold.ErrUnknown
		}
	}}
	w := r.startOn(r.js, st, r.config(counting(&runs)))
	relay := r.relay()
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	r.read("OUT", 1)
	relay.end()
	assert.EqualValues(t, 1, runs.Load())
	assert.Equal(t, 1, r.count("committed"))
	assert.Equal(t, 1, r.stored("OUT"))
}

func TestScenario_D27_TheMessageOfADeadProcessRunsAgain(t *testing.T) {
	r, g := newRig(t), newGate()
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) })
	c.AckWait, c.ShutdownTimeout = time.Second, time.Millisecond
	dead := r.start(c)
	r.publish("one", "x")
	r.await1(g.entered)
	r.reopen() // the store of the dead process answers nothing any more
	require.ErrorIs(t, func() error { r.publish("two", "y"); return dead.err() }(), onefold.ErrClosed)

	c.Handler = func(context.Context, *onefold.Message, *onefold.Effects) error { return nil }
	w := r.start(c)
	r.awaitCount("acked", 2)
	r.settled()
	w.end()
}

func TestScenario_D30_CopiesThatWaitUseUpNoAttempt(t *testing.T) {
	r, g := newRig(t), newGate()
	var runs atomic.Int64
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error {
		if runs.Add(1) == 1 {
			_ = g.pass(ctx)
			return errors.New("first copy fails at the end")
		}
		return nil
	})
	c.MaxAttempts = 2
	w := r.start(c)
	for range 5 {
		r.publish("one", "x")
	}
	r.await1(g.entered)
	r.awaitCount("followed", 4)
	close(g.open)
	r.await("all answered", func(c map[string]int) bool { return c["acked"]+c["duplicate"] == 5 })
	r.settled()
	w.end()
	assert.EqualValues(t, 2, runs.Load())
	assert.Zero(t, r.count("dead"))
	assert.Equal(t, 4, r.count("given back"), "copies come again and are judged by themselves")
}

func TestScenario_D31_InProgressElsewhereIsNeverAcked(t *testing.T) {
	r := newRig(t)
	key := onefold.Key{Scope: "IN/work", ID: "one"}
	grant, err := r.st.Begin(r.ctx, onefold.Request{Key: key, Lease: time.Hour, Holder: onefold.Holder{Process: 1, Attempt: 1}})
	require.NoError(t, err)
	var runs atomic.Int64
	w := r.start(r.config(counting(&runs)))
	r.publish("one", "x")
	r.awaitCount("retried", 3)
	assert.Zero(t, r.count("acked")+r.count("duplicate"))
	assert.Zero(t, runs.Load())
	require.NoError(t, r.st.Release(r.ctx, grant.Claim, onefold.Failure{}))
	r.awaitCount("acked", 1)
	w.end()
	assert.EqualValues(t, 1, runs.Load())
	assert.Equal(t, 1, r.events("acked")[0].event.Attempt, "waiting is no attempt")
}

func TestScenario_D32_AFailureIsNotKeptAsTheAnswerAndABusinessRefusalIs(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	w := r.start(r.config(func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		if runs.Add(1) == 1 {
			fx.Result("half done")
			return errors.New("transient")
		}
		fx.Result("refused: no credit")
		return nil
	}))
	r.publish("one", "x")
	r.awaitCount("retried", 1)
	r.awaitCount("acked", 1)
	w.end()
	record, err := r.st.Lookup(r.ctx, onefold.Key{Scope: "IN/work", ID: "one"})
	require.NoError(t, err)
	assert.Equal(t, onefold.Succeeded, record.Outcome)
	assert.Equal(t, `"refused: no credit"`, string(record.Result))
}

func TestScenario_D33_TheHandlerSeesIDAttemptFirstTimeAndToken(t *testing.T) {
	r := newRig(t)
	type seen struct {
		key     onefold.Key
		attempt int
		first   time.Time
		token   uint64
	}
	all := make(chan seen, 2)
	var runs atomic.Int64
	w := r.start(r.config(func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		all <- seen{fx.Key(), fx.Attempt(), fx.First(), fx.Token()}
		if runs.Add(1) == 1 {
			return errors.New("again")
		}
		return nil
	}))
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	one, two := <-all, <-all
	assert.Equal(t, onefold.Key{Scope: "IN/work", ID: "one"}, one.key)
	assert.Equal(t, one.key, two.key)
	assert.Equal(t, []int{1, 2}, []int{one.attempt, two.attempt})
	assert.False(t, one.first.IsZero())
	assert.WithinDuration(t, one.first, two.first, time.Second)
	assert.Greater(t, two.token, one.token)
}
