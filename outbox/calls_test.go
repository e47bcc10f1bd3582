package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
)

// onEachStore runs a test on a rig with memstore, and on one with boltstore.
func onEachStore(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Run("memstore", func(t *testing.T) { test(t, newRig(t)) })
	t.Run("boltstore", func(t *testing.T) {
		r := newRig(t)
		st, err := boltstore.Open(t.TempDir(), nil)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, st.Close(context.Background())) })
		r.st = st
		test(t, r)
	})
}

// call commits one call under its own key.
func (r *rig) call(id, name string, once bool) {
	r.t.Helper()
	_, err := outbox.Enqueue(r.ctx, r.st, key(id), 0, func(fx *onefold.Effects) error {
		if once {
			fx.CallOnce(name, id)
		} else {
			fx.Call(name, id)
		}
		return nil
	})
	require.NoError(r.t, err)
}

// ledger records calls.
type ledger struct {
	mu    sync.Mutex
	calls []outbox.Call
}

func (l *ledger) note(c outbox.Call) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
	return len(l.calls)
}

func (l *ledger) all() []outbox.Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]outbox.Call(nil), l.calls...)
}

// with is quick with one function, "f".
func with(f outbox.Function) outbox.Config {
	c := quick
	c.Functions = map[string]outbox.Function{"f": f}
	return c
}

func TestScenario_O28_EveryCallOfARowHasTheKeyOfTheFirstInEveryRerunOfItsHandler(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		var l ledger
		r.call("a", "f", false)
		r.call("a", "f", false) // the handler runs again
		r.run(with(outbox.Function{Do: func(_ context.Context, c outbox.Call) error {
			if l.note(c) < 3 {
				return errors.New("not yet")
			}
			return nil
		}}))
		settled := r.await("settled", 1)[0].row
		assert.Equal(t, onefold.KindCall, settled.Kind)
		assert.Len(t, r.events("published"), 1)
		calls := l.all()
		require.Len(t, calls, 3)
		for i, c := range calls {
			assert.Equal(t, outbox.Call{
				Name: "f", Key: key("a").EffectID(0), Payload: []byte(`"a"`), Attempt: i + 1, Source: key("a"),
			}, c)
		}
	})
}

func TestHowACallEndsDecidesWhatFollows(t *testing.T) {
	for name, test := range map[string]struct {
		end      func() error
		delayed  int // before it is parked, with MaxAttempts 4
		reason   string
		class    onefold.Class
		delayOne time.Duration
	}{
		"error":     {end: func() error { return errors.New("no") }, delayed: 3, reason: `given up after 4 attempts: function "f": no`, class: onefold.ClassRefused},
		"panic":     {end: func() error { panic("boom") }, delayed: 3, reason: "boom", class: onefold.ClassPanic},
		"goexit":    {end: func() error { runtime.Goexit(); return nil }, delayed: 3, reason: "runtime.Goexit", class: onefold.ClassPanic},
		"permanent": {end: func() error { return onefold.Permanent(errors.New("never")) }, reason: `function "f": never`, class: onefold.ClassPermanent},
		"retry after": {
			end: func() error { return onefold.RetryAfter(7*time.Millisecond, errors.New("soon")) }, delayed: 3,
			reason: "soon", class: onefold.ClassRefused, delayOne: 7 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.run(with(outbox.Function{Do: func(context.Context, outbox.Call) error { return test.end() }}))
			r.call("a", "f", false)
			parked := r.await("parked", 1)[0].row
			assert.Equal(t, test.class, parked.Class)
			delayed := r.events("delayed")
			require.Len(t, delayed, test.delayed)
			if test.delayOne > 0 {
				assert.Equal(t, test.delayOne, delayed[0].row.Delay)
			}
			assert.Contains(t, r.parked()[0].Reason, test.reason)
		})
	}
}

func TestAFunctionThatSaysUnavailableUsesUpNoAttempt(t *testing.T) {
	r := newRig(t)
	var l ledger
	c := with(outbox.Function{Do: func(_ context.Context, c outbox.Call) error {
		if l.note(c) < 4 {
			return fmt.Errorf("bank: %w", onefold.ErrUnavailable)
		}
		return nil
	}})
	c.MaxAttempts = 1
	r.run(c)
	r.call("a", "f", false)
	assert.Equal(t, 1, r.await("settled", 1)[0].row.Attempt)
	assert.Len(t, l.all(), 4)
}

func TestACallEndsWithItsTimeout(t *testing.T) {
	r := newRig(t)
	c := with(outbox.Function{Timeout: time.Millisecond, Do: func(ctx context.Context, _ outbox.Call) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	c.MaxAttempts = 1
	r.run(c)
	r.call("a", "f", false)
	parked := r.await("parked", 1)[0].row
	require.ErrorIs(t, parked.Err, context.DeadlineExceeded)
	assert.Equal(t, onefold.ClassUnknown, parked.Class)
}

func TestARowWhoseFunctionIsNotRegisteredIsParkedUntilItIs(t *testing.T) {
	r := newRig(t)
	var l ledger
	f := outbox.Function{Do: func(_ context.Context, c outbox.Call) error { l.note(c); return nil }}
	stop := r.run(with(f))
	r.call("a", "g", false)
	r.await("parked", 1)
	assert.Contains(t, r.parked()[0].Reason, `function "g"; registered in Config.Functions: f. Register it and resume the row`)
	require.NoError(t, stop())

	c := with(f)
	c.Functions["g"] = f
	r.run(c)
	n, err := outbox.Resume(r.ctx, r.st, outbox.Choice{Target: "g"}, "registered now", nil)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	r.await("settled", 1)
	require.Len(t, l.all(), 1)
	assert.Equal(t, "g", l.all()[0].Name)
}

func TestSlowCallsDelayNoMessageAndNoCallOfAnotherFunction(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		const slow, window = 300, 32 // ten times of what is held
		for i := range slow {
			r.call(fmt.Sprintf("slow-%d", i), "slow", false)
		}
		for i := range 10 {
			r.call(fmt.Sprintf("fast-%d", i), "fast", false)
		}
		r.emitMany("m", 100, "out.a")
		var slowCalls, fastCalls ledger
		release := make(chan struct{})
		r.run(outbox.Config{
			Window: window, RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond,
			Functions: map[string]outbox.Function{
				"slow": {Window: 2, Timeout: 29 * time.Second, Do: func(ctx context.Context, c outbox.Call) error {
					select {
					case <-release:
					case <-ctx.Done():
						return ctx.Err()
					}
					slowCalls.note(c)
					return nil
				}},
				"fast": {Do: func(_ context.Context, c outbox.Call) error { fastCalls.note(c); return nil }},
			},
		})
		r.await("settled", 110)
		r.requireEachOnce("m", 100)
		assert.Empty(t, slowCalls.all())
		assert.Len(t, fastCalls.all(), 10)

		close(release)
		r.await("settled", 110+slow)
		keys := map[string]int{}
		for _, c := range slowCalls.all() {
			keys[c.Key]++
			assert.Equal(t, 1, c.Attempt, "waiting for its turn uses up no attempt")
		}
		assert.Len(t, keys, slow)
		assert.Len(t, slowCalls.all(), slow)
		assert.Empty(t, r.parked())
	})
}

func TestCallsAndMessagesOfOneOrderKeyLeaveInTheirOrder(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		const n = 40
		for i := range n {
			e := onefold.Effect{OrderKey: "k", Target: "out.a"}
			if i%2 == 0 {
				e = onefold.Effect{OrderKey: "k", Kind: onefold.KindCall, Target: "f"}
			}
			r.emit(fmt.Sprint(i), e)
		}
		r.run(with(outbox.Function{Do: func(context.Context, outbox.Call) error { return nil }}))
		for i, e := range r.await("settled", n) {
			assert.Equal(t, key(fmt.Sprint(i)).EffectID(0), e.row.ID)
		}
	})
}

func TestACallThatTheRelayStopsComesAgainAndUsesUpNoAttempt(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		started := make(chan struct{}, 1)
		c := with(outbox.Function{Window: 1, Do: func(ctx context.Context, _ outbox.Call) error {
			started <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}})
		c.ShutdownTimeout = 100 * time.Millisecond
		stop := r.run(c)
		r.call("a", "f", false)
		r.call("b", "f", false) // waits for its turn
		<-started
		r.await("fetched", 2)
		require.NoError(t, stop())
		assert.Len(t, r.events("delayed"), 2)

		var l ledger
		r.run(with(outbox.Function{Do: func(_ context.Context, c outbox.Call) error { l.note(c); return nil }}))
		r.await("settled", 2)
		for _, c := range l.all() {
			assert.Equal(t, 1, c.Attempt)
		}
	})
}

func TestAFunctionThatIgnoresTheEndOfItsContextIsNamedAndNotCalledBesideItself(t *testing.T) {
	r := newRig(t)
	started, release := make(chan struct{}, 1), make(chan struct{})
	var l ledger
	relay, err := outbox.NewRelay(r.st, outbox.Config{
		JetStream: r.js, ShutdownTimeout: 20 * time.Millisecond, RetryMin: time.Millisecond, RetryMax: time.Millisecond, Observer: r.observer(),
		Functions: map[string]outbox.Function{"f": {Do: func(_ context.Context, c outbox.Call) error {
			if l.note(c) == 1 {
				started <- struct{}{}
				<-release
			}
			return nil
		}}},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	r.call("a", "f", false)
	<-started
	cancel()
	err = <-done
	require.ErrorIs(t, err, outbox.ErrStillCalling)
	assert.Contains(t, err.Error(), "1 calls of f")

	ctx, cancel = context.WithCancel(r.ctx)
	go func() { done <- relay.Run(ctx) }()
	delayed := r.await("delayed", 3)[2].row
	assert.Contains(t, delayed.Err.Error(), "an earlier call of this row has not returned")
	assert.Len(t, l.all(), 1)
	close(release)
	r.await("settled", 1)
	assert.Len(t, l.all(), 2)
	cancel()
	require.NoError(t, <-done)
}
