package consumer_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func TestScenario_L12_ALostLeaseCancelsTheRunAndItsLateCommitIsRefused(t *testing.T) {
	r := newRig(t)
	r.output()
	var lost atomic.Bool
	st := &faulty{Store: r.st}
	st.renew = func(c *onefold.Claim) error {
		if !lost.Swap(true) { // the claim ends, as if its lease had run out
			if err := r.st.Release(r.ctx, c, onefold.Failure{}); err != nil {
				return err
			}
			return onefold.ErrLost
		}
		return nil
	}
	var runs atomic.Int64
	c := r.config(func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		fx.Publish("out.a", "effect")
		if runs.Add(1) == 1 {
			<-ctx.Done()
		}
		return nil // the late run believes that it has succeeded
	})
	c.AckWait, c.Lease = time.Second, 600*time.Millisecond
	w := r.startOn(r.js, st, c)
	relay := r.relay()
	r.publish("one", "x")
	r.awaitCount("lost", 1)
	r.awaitCount("acked", 1)
	r.settled()
	w.end()
	r.read("OUT", 1)
	relay.end()
	assert.EqualValues(t, 2, runs.Load())
	assert.Equal(t, 1, r.count("committed"))
	assert.Equal(t, 1, r.count("lost"))
	assert.Equal(t, 1, r.stored("OUT"))
}

func TestScenario_L17_ARunThatOverstaysItsLeaseIsDiscardedAndTheNewOwnersResultStands(t *testing.T) {
	r, g := newRig(t), newGate()
	var lost atomic.Bool
	st := &faulty{Store: r.st}
	st.renew = func(c *onefold.Claim) error {
		if !lost.Swap(true) {
			if err := r.st.Release(r.ctx, c, onefold.Failure{}); err != nil {
				return err
			}
			return onefold.ErrLost
		}
		return nil
	}
	var runs atomic.Int64
	returned := make(chan struct{})
	c := r.config(func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		if runs.Add(1) == 1 {
			_ = g.pass(context.Background()) // a call that ignores its context
			fx.Result([]byte("old"))
			close(returned)
			return nil
		}
		fx.Result([]byte("new"))
		return nil
	})
	c.AckWait, c.Lease = time.Second, 600*time.Millisecond
	w := r.startOn(r.js, st, c)
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	close(g.open)
	r.await1(returned)
	r.awaitCount("handled", 2)
	w.end()
	record, err := r.st.Lookup(r.ctx, onefold.Key{Scope: "IN/work", ID: "one"})
	require.NoError(t, err)
	assert.Equal(t, "new", string(record.Result))
	assert.Equal(t, 1, r.count("lost"), "a warning names the overrun")
	assert.Equal(t, 1, r.count("acked"))
	assert.Zero(t, r.count("duplicate"))
}

func TestScenario_L16_APanicIsAFailureWithItsReasonAndTheProcessLives(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic("boom") },
		"goexit": goexit,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var runs atomic.Int64
			c := r.config(func(_ context.Context, m *onefold.Message, _ *onefold.Effects) error {
				if string(m.Data) == "bad" {
					runs.Add(1)
					end()
				}
				return nil
			})
			c.MaxAttempts, c.Concurrency = 3, 1
			w, relay := r.start(c), r.relay()
			r.publish("bad", "bad")
			r.publish("good", "good")
			r.awaitCount("acked", 2)
			r.settled()
			w.end()
			letter := r.read("ONEFOLD_DEAD", 1)[0]
			relay.end()
			assert.EqualValues(t, 3, runs.Load())
			assert.Equal(t, 2, r.count("retried"))
			for _, e := range r.events("retried") {
				assert.Equal(t, onefold.ClassPanic, e.event.Class)
				assert.Positive(t, e.event.Delay)
			}
			assert.Equal(t, "panic", letter.Headers().Get("Onefold-Dead-Class"))
			assert.Equal(t, "3", letter.Headers().Get("Onefold-Dead-Attempts"))
			assert.Contains(t, letter.Headers().Get("Onefold-Dead-Reason"), "attempt 3 of 3")
			assert.NotEmpty(t, letter.Headers().Get("Onefold-Dead-Earlier-Error"))
		})
	}
}

func TestScenario_K03_AMismatchIsFoundWhileTheFirstRunsAndWhenItIsDone(t *testing.T) {
	r, g := newRig(t), newGate()
	w := r.start(r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) }))
	relay := r.relay()
	r.publish("one", "first")
	r.await1(g.entered)
	r.publish("one", "second") // while it runs
	r.awaitCount("dead", 1)
	close(g.open)
	r.awaitCount("acked", 2)
	r.publish("one", "third") // when it is done
	r.awaitCount("acked", 3)
	r.settled()
	w.end()
	letters := r.read("ONEFOLD_DEAD", 2)
	relay.end()
	assert.Equal(t, 1, r.count("claimed"))
	for i, body := range []string{"second", "third"} {
		assert.Equal(t, body, string(letters[i].Data()))
		assert.Equal(t, "mismatch", letters[i].Headers().Get("Onefold-Dead-Class"))
		assert.Equal(t, "one", letters[i].Headers().Get("Onefold-Dead-Id"))
	}
}

func TestScenario_K04_TheFingerprintSurvivesEveryStepAndARestart(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	h := func(context.Context, *onefold.Message, *onefold.Effects) error {
		if runs.Add(1) == 1 {
			return errors.New("again")
		}
		return nil
	}
	w := r.start(r.config(h))
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	r.settled()
	w.end()
	r.reopen()
	w, relay := r.start(r.config(h)), r.relay()
	r.publish("one", "x")
	r.awaitCount("duplicate", 1)
	r.publish("one", "y")
	r.awaitCount("dead", 1)
	r.awaitCount("acked", 2)
	w.end()
	relay.end()
	assert.EqualValues(t, 2, runs.Load())
}

func TestScenario_K11_IDsMayHoldAnyBytesAndNothingRawReachesALogLine(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	w := r.start(r.config(counting(&runs)))
	ids := []string{"with\nline break", "nul\x00byte", "../../etc/passwd", "schön", "\xff\xfe binary", strings.Repeat("long", 2560)}
	for _, id := range ids {
		// The ID comes from a function, because a header cannot hold all of these.
		r.send(&nats.Msg{Subject: "in.a", Data: []byte(id)})
	}
	w.end()
	c := r.config(counting(&runs))
	c.Name = "bytes"
	c.ID = func(m *onefold.Message) (string, error) { return string(m.Data), nil }
	w = r.start(c)
	r.awaitCount("acked", len(ids))
	for _, id := range ids {
		r.send(&nats.Msg{Subject: "in.a", Data: []byte(id)})
	}
	r.awaitCount("duplicate", len(ids))
	w.end()
	assert.EqualValues(t, len(ids), runs.Load())
	for _, e := range r.events("acked") {
		shown := e.event.Key.String()
		assert.Less(t, len(shown), 400)
		assert.NotContains(t, shown, "\n")
		assert.NotContains(t, shown, "\x00")
	}
}

func TestScenario_K20_TheSameIDWithAnotherPayloadIsADeadLetterThatNamesBothDigests(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	w, relay := r.start(r.config(counting(&runs))), r.relay()
	r.publish("one", "first")
	r.awaitCount("acked", 1)
	r.publish("one", "second")
	r.publish("one", "second")
	r.await("both answered", func(c map[string]int) bool { return c["acked"]+c["duplicate"] == 3 })
	r.settled()
	w.end()
	letter := r.read("ONEFOLD_DEAD", 1)[0]
	relay.end()
	assert.EqualValues(t, 1, runs.Load())
	assert.Equal(t, 1, r.stored("ONEFOLD_DEAD"), "a copy of the mismatch is no second dead letter")
	reason := letter.Headers().Get("Onefold-Dead-Reason")
	assert.Contains(t, reason, "id reused with different payload")
	assert.Equal(t, 2, strings.Count(reason, "v1:"), reason)
}
