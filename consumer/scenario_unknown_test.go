package consumer_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

// paying is a handler that pays directly; its first run ends in cut.
func paying(paid *atomic.Int64, cut onefold.Handler) onefold.Handler {
	return func(ctx context.Context, m *onefold.Message, fx *onefold.Effects) error {
		if paid.Add(1) == 1 {
			return cut(ctx, m, fx)
		}
		return nil
	}
}

func TestScenario_L03_AMessageWhoseOutcomeIsUnknownRunsAgainOrIsParkedAsChosen(t *testing.T) {
	for _, park := range []bool{true, false} {
		t.Run(fmt.Sprintf("park %v", park), func(t *testing.T) {
			t.Parallel()
			r, g := newRig(t), newGate()
			var paid atomic.Int64
			c := r.config(paying(&paid, func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) }))
			c.AckWait, c.ParkUnknown, c.ShutdownTimeout = time.Second, park, 100*time.Millisecond
			w := r.start(c)
			r.publish("one", "x")
			r.await1(g.entered)
			r.reopen() // the process dies in the middle of the payment
			require.ErrorIs(t, w.err(), onefold.ErrClosed)
			w, relay := r.start(c), r.relay()
			r.awaitCount("acked", 1)
			r.settled()
			w.end()
			relay.end()
			record, err := r.st.Lookup(r.ctx, onefold.Key{Scope: "IN/work", ID: "one"})
			require.NoError(t, err)
			if !park {
				assert.EqualValues(t, 2, paid.Load())
				assert.Equal(t, onefold.Succeeded, record.Outcome)
				return
			}
			assert.EqualValues(t, 1, paid.Load(), "nobody pays twice")
			assert.Equal(t, onefold.ParkedUnknown, record.Outcome)
			r.parked("one", "x", "an earlier run was cut short")
		})
	}
}

func TestWhateverEndsARunWithoutAWordOfItsHandlerParksTheMessage(t *testing.T) {
	for name, c := range map[string]struct {
		cut    func(*rig, *gate) onefold.Handler
		change func(*consumer.Config)
		renew  func(*rig) func(*onefold.Claim) error
		reason string
	}{
		"panic": {cut: func(*rig, *gate) onefold.Handler {
			return func(context.Context, *onefold.Message, *onefold.Effects) error { panic("boom") }
		}, reason: "handler panicked: boom"},
		"an error that says so": {cut: func(*rig, *gate) onefold.Handler {
			return func(context.Context, *onefold.Message, *onefold.Effects) error {
				return fmt.Errorf("no answer: %w", onefold.ErrUnknown)
			}
		}, reason: "no answer"},
		"cancelled at the timeout": {cut: func(_ *rig, g *gate) onefold.Handler {
			return func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) }
		}, change: func(c *consumer.Config) { c.HandlerTimeout = 50 * time.Millisecond }, reason: "HandlerTimeout (50ms)"},
		"zombie": {cut: func(_ *rig, g *gate) onefold.Handler {
			return func(context.Context, *onefold.Message, *onefold.Effects) error { return g.pass(context.Background()) }
		}, change: func(c *consumer.Config) { c.HandlerTimeout = 50 * time.Millisecond }, reason: "still running after"},
		"refused commit": {cut: func(r *rig, _ *gate) onefold.Handler {
			return func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
				if _, _, err := fx.Get(ctx, "table", "key"); err != nil {
					return err
				}
				return r.write("table", "key") // somebody else's
			}
		}, reason: "its effects were refused"},
		"lost claim": {cut: func(_ *rig, g *gate) onefold.Handler {
			return func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) }
		}, change: func(c *consumer.Config) { c.AckWait, c.Lease = time.Second, 300*time.Millisecond },
			renew: func(*rig) func(*onefold.Claim) error {
				return func(*onefold.Claim) error { return onefold.ErrLost } // and its lease runs out
			}, reason: "an earlier run was cut short"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, g := newRig(t), newGate()
			var paid atomic.Int64
			cfg := r.config(paying(&paid, c.cut(r, g)))
			cfg.ParkUnknown = true
			if c.change != nil {
				c.change(&cfg)
			}
			st := &faulty{Store: r.st}
			if c.renew != nil {
				st.renew = c.renew(r)
			}
			w, relay := r.startOn(r.js, st, cfg), r.relay()
			r.publish("one", "x")
			r.awaitCount("acked", 1)
			r.settled()
			close(g.open)
			w.end()
			relay.end()
			assert.EqualValues(t, 1, paid.Load())
			r.parked("one", "x", c.reason)
		})
	}
}

func TestAFailureOfTheHandlerIsRetriedEvenIfUnknownOutcomesAreParked(t *testing.T) {
	r := newRig(t)
	var paid atomic.Int64
	c := r.config(paying(&paid, func(context.Context, *onefold.Message, *onefold.Effects) error { return fmt.Errorf("card declined") }))
	c.ParkUnknown = true
	w := r.start(c)
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	assert.EqualValues(t, 2, paid.Load())
	assert.Zero(t, r.count("dead"))
}

// write changes a value of state as another part of the program would.
func (r *rig) write(table, key string) error {
	c := onefold.Commit{Entry: onefold.Entry{Writes: []onefold.Write{{Table: table, Key: key, Value: []byte("other")}}}}
	if err := r.st.Commit(r.ctx, []*onefold.Commit{&c}); err != nil {
		return err
	}
	return c.Err
}

// parked wants one message in the list of what needs a person, and its payload in the dead-letter stream.
func (r *rig) parked(id, body, reason string) {
	r.t.Helper()
	listed := 0
	for item, err := range r.st.Scan(r.ctx, onefold.Query{What: onefold.WhatAttention}) {
		require.NoError(r.t, err)
		require.NotNil(r.t, item.Record)
		assert.Equal(r.t, id, item.Record.Key.ID)
		assert.Equal(r.t, onefold.ParkedUnknown, item.Record.Outcome)
		listed++
	}
	assert.Equal(r.t, 1, listed)
	dead := r.events("dead")
	require.Len(r.t, dead, 1)
	assert.Equal(r.t, onefold.ParkedUnknown, dead[0].event.Outcome)
	assert.Equal(r.t, onefold.ClassUnknown, dead[0].event.Class)
	letter := r.read("ONEFOLD_DEAD", 1)[0]
	assert.Equal(r.t, body, string(letter.Data()))
	assert.Equal(r.t, "unknown", letter.Headers().Get(consumer.HeaderDeadClass))
	assert.Contains(r.t, letter.Headers().Get(consumer.HeaderDeadReason), "outcome unknown: ")
	assert.Contains(r.t, letter.Headers().Get(consumer.HeaderDeadReason), reason)
}
