package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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

// consumer makes a consumer that is not running.
func (r *rig) consumer(c consumer.Config) *consumer.Consumer {
	r.t.Helper()
	work, err := consumer.New(r.js, r.st, c)
	require.NoError(r.t, err)
	return work
}

// ask asks h as a probe does.
func ask(t *testing.T, h http.Handler, method string) (int, consumer.Health) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
	var told consumer.Health
	if w.Code != http.StatusMethodNotAllowed {
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &told))
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	}
	return w.Code, told
}

func TestHealthTellsStatesAgesAndSlots(t *testing.T) {
	r, g := newRig(t), newGate()
	c := r.config(func(ctx context.Context, m *onefold.Message, _ *onefold.Effects) error {
		if string(m.Data) == "fails" {
			return onefold.RetryAfter(time.Hour, errors.New("no"))
		}
		return g.pass(ctx)
	})
	c.OrderBy, c.MaxAckPending = bySubject, 100
	work := r.consumer(c)
	h := work.Health(r.ctx)
	assert.Equal(t, consumer.StateNew, h.State)
	assert.False(t, h.Ready())
	w := r.run(work)
	r.publishTo("k", "runs")
	r.await1(g.entered)
	r.publishTo("k", "waits")
	r.publishTo("free", "fails")
	r.awaitCount("retried", 1)
	r.awaitCount("received", 3)
	require.Eventually(t, func() bool { return work.Health(r.ctx).Held == 2 }, 5*time.Second, time.Millisecond)
	h = work.Health(r.ctx)
	assert.True(t, h.Ready() && h.Live())
	assert.Equal(t, "consumer IN/work", h.Part)
	assert.Equal(t, [5]int{1, 4, 1, 100, 1}, [5]int{h.Running, h.Concurrency, h.Waiting, h.MaxAckPending, h.Delayed})
	assert.Equal(t, 50, h.DelayedAllowed)
	assert.Positive(t, h.OldestRunning)
	assert.GreaterOrEqual(t, h.OldestHeld, h.OldestRunning)
	close(g.open)
	r.awaitCount("acked", 2)
	w.end()
	h = work.Health(r.ctx)
	assert.Equal(t, consumer.StateStopped, h.State)
	assert.True(t, h.Live(), "it was asked to stop")
}

func TestProbesAnswerWithStatusAndJSON(t *testing.T) {
	r := newRig(t)
	c := r.config(func(context.Context, *onefold.Message, *onefold.Effects) error { return nil })
	c.Lease = 600 * time.Millisecond // how soon a closed store is noticed
	work := r.consumer(c)
	w := r.run(work)
	r.awaitCount("state running", 1)
	code, h := ask(t, work.ReadyHandler(), http.MethodGet)
	assert.Equal(t, http.StatusOK, code)
	assert.Equal(t, consumer.StateRunning, h.State)
	code, _ = ask(t, work.LiveHandler(), http.MethodPost)
	assert.Equal(t, http.StatusMethodNotAllowed, code)
	work.Pause()
	code, h = ask(t, work.ReadyHandler(), http.MethodGet)
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Equal(t, consumer.StatePaused, h.State)
	code, _ = ask(t, work.LiveHandler(), http.MethodGet)
	assert.Equal(t, http.StatusOK, code)
	require.NoError(t, r.st.Close(r.ctx))
	require.ErrorIs(t, w.err(), onefold.ErrClosed)
	code, h = ask(t, work.LiveHandler(), http.MethodGet)
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.NotEmpty(t, h.Error)
}

func TestAPauseLetsRunWhatRunsAndStartsNothing(t *testing.T) {
	r, g := newRig(t), newGate()
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) })
	c.Concurrency, c.AckWait = 1, time.Second
	work := r.consumer(c)
	w := r.run(work)
	r.publish("1", "x")
	r.publish("2", "x")
	r.await1(g.entered)
	r.awaitCount("received", 2)
	work.Pause()
	work.Pause()
	r.awaitCount("given back", 1)
	close(g.open)
	r.awaitCount("acked", 1)
	r.publish("3", "x")
	assert.Equal(t, 1, r.count("state paused"))
	work.Resume()
	r.awaitCount("acked", 3)
	w.end()
	assert.Equal(t, 3, r.count("claimed"))
}

func TestAConsumerThatIsPausedBeforeItRunsTakesNothing(t *testing.T) {
	r := newRig(t)
	work := r.consumer(r.config(func(context.Context, *onefold.Message, *onefold.Effects) error { return nil }))
	work.Pause()
	r.publish("1", "x")
	w := r.run(work)
	r.awaitCount("state paused", 1)
	assert.Zero(t, r.count("state running"))
	work.Resume()
	r.awaitCount("acked", 1)
	w.end()
}

func TestMessagesThatWaitForTheRateLimitDoNotGoStale(t *testing.T) {
	r := newRig(t)
	c := r.config(func(context.Context, *onefold.Message, *onefold.Effects) error { return nil })
	c.AckWait, c.Concurrency = 300*time.Millisecond, 2
	c.RateLimit = rate.NewLimiter(2, 1) // a token takes longer than AckWait
	for i := range 4 {
		r.publish(fmt.Sprint(i), "x")
	}
	w := r.start(c)
	r.awaitCount("acked", 4)
	w.end()
	claimed := r.events("claimed")
	require.Len(t, claimed, 4)
	assert.GreaterOrEqual(t, claimed[3].event.At.Sub(claimed[0].event.At), 1400*time.Millisecond, "three tokens")
	assert.Zero(t, r.count("dropped")+r.count("given back"))
}

func TestALimiterThatLetsNothingPassKeepsMessagesUntilItDoes(t *testing.T) {
	r := newRig(t)
	c := r.config(func(context.Context, *onefold.Message, *onefold.Effects) error { return nil })
	c.RateLimit = rate.NewLimiter(0, 1)
	require.True(t, c.RateLimit.Allow())
	work := r.consumer(c)
	w := r.run(work)
	r.publish("1", "x")
	require.Eventually(t, func() bool { return work.Health(r.ctx).Waiting == 1 }, 5*time.Second, time.Millisecond)
	c.RateLimit.SetLimit(1000)
	r.awaitCount("acked", 1)
	w.end()
}

func TestScenario_J19_MessagesThatStayAwayDoNotHoldAllSlots(t *testing.T) {
	r := newRig(t)
	const fail, good = 30, 200
	c := r.config(func(_ context.Context, m *onefold.Message, _ *onefold.Effects) error {
		if string(m.Data) == "fails" {
			return onefold.RetryAfter(time.Hour, errors.New("no"))
		}
		return nil
	})
	c.MaxAckPending = 40
	r.publishMany(fail+good, func(i int) (string, string) {
		if i < fail {
			return fmt.Sprint(i), "fails"
		}
		return fmt.Sprint(i), "good"
	})
	work := r.consumer(c)
	w := r.run(work)
	r.awaitCount("acked", good)
	h := work.Health(r.ctx)
	w.end()
	assert.Equal(t, fail, h.Delayed, "three quarters of the slots, beyond their share")
	assert.Equal(t, 20, h.DelayedAllowed)
}

func TestScenario_O07_EffectsThatNobodyRelaysAreToldAndStopTheConsumer(t *testing.T) {
	r := newRig(t)
	r.output()
	c := r.config(func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		fx.Publish("out.a", "x")
		return nil
	})
	c.RelayWithin, c.AckWait = 200*time.Millisecond, time.Second
	work := r.consumer(c)
	w := r.run(work)
	r.publish("1", "x")
	r.awaitCount("state waiting for a relay", 1)
	h := work.Health(r.ctx)
	assert.EqualValues(t, 1, h.Rows)
	assert.Greater(t, h.OldestRow, c.RelayWithin)
	assert.Negative(t, h.RelayAsked)
	assert.Contains(t, h.Error, "run an outbox.Relay")
	code, _ := ask(t, work.ReadyHandler(), http.MethodGet)
	assert.Equal(t, http.StatusServiceUnavailable, code)
	r.publish("2", "x")
	assert.Equal(t, 1, r.count("claimed"))
	relay := r.relay()
	r.awaitCount("acked", 2)
	w.end()
	relay.end()
	assert.ErrorIs(t, r.events("state waiting for a relay")[0].state.Err, consumer.ErrUnrelayed)
}

func ExampleConsumer_ReadyHandler() {
	js, err := jetstream.New(&nats.Conn{}) // in a program: of a connection
	if err != nil {
		fmt.Println(err)
		return
	}
	work, err := consumer.New(js, memstore.New(), consumer.Config{
		Stream: "ORDERS", Name: "billing",
		Handler: func(context.Context, *onefold.Message, *onefold.Effects) error { return nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/readyz", work.ReadyHandler())
	mux.Handle("/livez", work.LiveHandler())
	for _, path := range []string{"/readyz", "/livez"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, w.Code) // Run has not been called yet
	}
	// Output:
	// /readyz 503
	// /livez 200
}

func TestScenario_L15_AfterManyKeysAnIdleConsumerHoldsNothingOfThem(t *testing.T) {
	r := newRig(t)
	const messages = 20_000
	c := r.config(func(_ context.Context, m *onefold.Message, fx *onefold.Effects) error {
		if m.Sequence%100 == 0 && fx.Attempt() == 1 {
			return errors.New("once")
		}
		return nil
	})
	c.OrderBy = func(m *onefold.Message) string { return m.Header.Get(onefold.HeaderID) }
	work := r.consumer(c)
	session, err := work.Open(r.ctx)
	require.NoError(t, err)
	for batch := range messages / 2000 {
		r.publishMany(2000, func(i int) (string, string) { return fmt.Sprint(batch, i), "x" })
	}
	w := r.run(part(session.Start))
	r.awaitCount("acked", messages)
	r.settled()
	_, held, keys := session.Counts()
	lanes, away := session.Kept()
	assert.Equal(t, [4]int{}, [4]int{held, keys, lanes, away})
	w.end()
}

func TestScenario_J20_AnAckWaitInTheWrongUnitIsRefusedWithTheQuestionForTheUnit(t *testing.T) {
	r := newRig(t)
	c := r.config(func(context.Context, *onefold.Message, *onefold.Effects) error { return nil })
	c.AckWait = 30 // seconds were meant
	_, err := consumer.New(r.js, r.st, c)
	require.ErrorIs(t, err, onefold.ErrInvalid)
	assert.ErrorContains(t, err, "AckWait is 30ns")
	assert.ErrorContains(t, err, "is the unit right?")

	_, err = r.js.CreateConsumer(r.ctx, "IN", jetstream.ConsumerConfig{Durable: "work", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Millisecond})
	require.NoError(t, err)
	c.AckWait = 0 // what the durable has
	err = r.start(c).err()
	require.ErrorIs(t, err, onefold.ErrInvalid)
	assert.ErrorContains(t, err, "AckWait is 30ms")
	assert.ErrorContains(t, err, "set Config.AckWait")
}
