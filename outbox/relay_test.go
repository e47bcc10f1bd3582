package outbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
)

func TestARowGoesOutUnderItsEffectIDWithItsHeaders(t *testing.T) {
	r := newRig(t)
	stop := r.run(outbox.Config{})
	r.emit("a", onefold.Effect{Target: "out.x", Payload: []byte("hello"), Header: onefold.Header{"Tenant": {"t1", "t2"}}})
	settled := r.await("settled", 1)[0].row
	require.NoError(t, stop())

	id := key("a").EffectID(0)
	assert.Equal(t, id, settled.ID)
	assert.Equal(t, 1, settled.Attempt)
	assert.False(t, settled.Duplicate)
	messages := r.stored("OUT")
	require.Len(t, messages, 1)
	assert.Equal(t, "hello", string(messages[0].Data))
	assert.Equal(t, id, messages[0].Header.Get("Nats-Msg-Id"))
	assert.Equal(t, id, messages[0].Header.Get("Onefold-Id"))
	assert.Equal(t, []string{"t1", "t2"}, messages[0].Header.Values("Tenant"))

	var order []string
	for _, e := range r.told {
		order = append(order, e.what)
	}
	assert.Equal(t, []string{"state running", "fetched", "published", "settled", "state stopped"}, order)
}

func TestScenario_O15_OrderPerKeyHoldsWithManyRowsOut(t *testing.T) {
	r := newRig(t)
	const keys, each = 7, 60
	for i := range each {
		for k := range keys {
			r.emit(fmt.Sprintf("%d-%d", k, i), onefold.Effect{
				Target: fmt.Sprintf("out.%d", k), OrderKey: fmt.Sprint(k), Payload: fmt.Append(nil, i),
			})
		}
	}
	stop := r.run(outbox.Config{Window: 64})
	r.await("settled", keys*each)
	require.NoError(t, stop())

	next := map[string]int{}
	for _, m := range r.stored("OUT") {
		assert.Equal(t, fmt.Sprint(next[m.Subject]), string(m.Data), m.Subject)
		next[m.Subject]++
	}
	assert.Len(t, next, keys)
}

func TestScenario_O23_RowsCommittedWhileNoRelayRunsGoOutAtStart(t *testing.T) {
	r := newRig(t)
	stop := r.run(outbox.Config{})
	r.emitMany("first", 20, "out.a")
	r.await("settled", 20)
	require.NoError(t, stop())

	r.emitMany("second", 20, "out.a")
	r.run(outbox.Config{})
	r.await("settled", 40)
	r.requireEachOnce("first", 20)
	r.requireEachOnce("second", 20)
}

func TestAServerRestartUnderLoadLosesNothing(t *testing.T) {
	r := newRig(t)
	const n = 1500
	r.emitMany("m", n/2, "out.a")
	r.run(outbox.Config{Window: 32, RetryMin: time.Millisecond})
	r.await("published", n/4)
	r.srv.Restart(t)
	r.emitMany("more", n/2, "out.a")
	r.await("settled", n)
	r.requireEachOnce("m", n/2)
	r.requireEachOnce("more", n/2)
	assert.Empty(t, r.events("parked"))
}

func TestRowsWaitForAServerThatIsAwayAndUseUpNoAttempt(t *testing.T) {
	r := newRig(t)
	r.srv.Stop()
	require.Eventually(t, func() bool { return !r.nc.IsConnected() }, 10*time.Second, time.Millisecond)
	r.emitMany("m", 10, "out.a")
	r.run(outbox.Config{MaxAttempts: 1})
	r.await("state waiting", 1)
	require.NoError(t, r.srv.StartAgain())
	for _, e := range r.await("settled", 10) {
		assert.Equal(t, 1, e.row.Attempt)
	}
	r.requireEachOnce("m", 10)
}

func TestTwoRelaysOnOneStoreTakeTurns(t *testing.T) {
	r := newRig(t)
	stopFirst := r.run(outbox.Config{})
	r.await("state running", 1)
	stopSecond := r.run(outbox.Config{})
	waits := r.await("state waiting", 1)[0].state
	require.ErrorIs(t, waits.Err, onefold.ErrBusy)
	r.emitMany("m", 30, "out.a")
	r.await("settled", 30)
	require.NoError(t, stopFirst())
	r.await("state running", 2)
	r.emitMany("n", 30, "out.a")
	r.await("settled", 60)
	require.NoError(t, stopSecond())
	r.requireEachOnce("m", 30)
	r.requireEachOnce("n", 30)
	assert.Len(t, r.events("published"), 60)
}

func TestScenario_J10_APublishThatTimesOutAlthoughStoredIsOneMessage(t *testing.T) {
	r := newRig(t)
	// A stream without acks stores and never answers.
	r.stream(jetstream.StreamConfig{Name: "MUTE", Subjects: []string{"mute.>"}, NoAck: true})
	r.run(outbox.Config{PublishTimeout: 50 * time.Millisecond, RetryMin: time.Millisecond, MaxAttempts: 1})
	r.emit("a", onefold.Effect{Target: "mute.a"})
	delayed := r.await("delayed", 2)[0].row
	assert.Equal(t, onefold.ClassUnknown, delayed.Class)
	require.ErrorIs(t, delayed.Err, jetstream.ErrAsyncPublishTimeout)

	r.stream(jetstream.StreamConfig{Name: "MUTE", Subjects: []string{"mute.>"}})
	settled := r.await("settled", 1)[0].row
	assert.True(t, settled.Duplicate)
	assert.Equal(t, 1, settled.Attempt, "waiting for an answer uses up no attempt")
	assert.Len(t, r.stored("MUTE"), 1)
}

func TestScenario_J18_AFullStreamKeepsItsRowsUntilThereIsRoom(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{Name: "SMALL", Subjects: []string{"small.>"}, MaxMsgs: 1, Discard: jetstream.DiscardNew})
	r.run(outbox.Config{MaxAttempts: 1, RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond})
	r.emitMany("small", 3, "small.a")
	r.await("delayed", 4)
	r.emitMany("m", 10, "out.a")
	r.await("settled", 1+10)
	r.requireEachOnce("m", 10)

	r.stream(jetstream.StreamConfig{Name: "SMALL", Subjects: []string{"small.>"}, MaxMsgs: 10, Discard: jetstream.DiscardNew})
	r.await("settled", 3+10)
	assert.Len(t, r.stored("SMALL"), 3)
	assert.Empty(t, r.events("parked"))
}

func TestShutdownGivesUnansweredRowsBack(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{Name: "MUTE", Subjects: []string{"mute.>"}, NoAck: true})
	stop := r.run(outbox.Config{ShutdownTimeout: 50 * time.Millisecond})
	r.emit("a", onefold.Effect{Target: "mute.a"})
	r.await("fetched", 1)
	require.NoError(t, stop())

	feed, err := r.st.Feed(r.ctx, time.Minute)
	require.NoError(t, err)
	rows, err := feed.Next(r.ctx, 1)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	assert.Equal(t, key("a").EffectID(0), rows[0].Effect.ID)
	require.NoError(t, feed.Close())
}

func TestAClosedConnectionEndsTheRelayWithAnError(t *testing.T) {
	r := newRig(t)
	nc, js := r.srv.Connect(t)
	relay, err := outbox.NewRelay(r.st, outbox.Config{JetStream: js, Observer: r.observer()})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- relay.Run(r.ctx) }()
	r.emitMany("m", 5, "out.a")
	r.await("settled", 5)
	require.ErrorIs(t, relay.Run(r.ctx), outbox.ErrRunning)
	nc.Close()
	require.ErrorIs(t, <-done, nats.ErrConnectionClosed)
	require.ErrorIs(t, relay.Run(r.ctx), nats.ErrConnectionClosed, "and at once when it is closed before")
	stopped := r.await("state stopped", 1)[0].state
	require.ErrorIs(t, stopped.Err, nats.ErrConnectionClosed)
}

func TestAClosedStoreEndsTheRelayWithAnError(t *testing.T) {
	r := newRig(t)
	relay, err := outbox.NewRelay(r.st, outbox.Config{JetStream: r.js, Observer: r.observer()})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- relay.Run(r.ctx) }()
	r.await("state running", 1)
	require.NoError(t, r.st.Close(r.ctx))
	require.ErrorIs(t, <-done, onefold.ErrClosed)
}

func TestARunWithAnEndedContextReturnsNil(t *testing.T) {
	r := newRig(t)
	relay, err := outbox.NewRelay(r.st, outbox.Config{JetStream: r.js})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	require.NoError(t, relay.Run(ctx))
}

func TestLargePayloadsGoOut(t *testing.T) {
	r := newRig(t)
	r.run(outbox.Config{})
	body := strings.Repeat("x", 900<<10)
	r.emit("a", onefold.Effect{Target: "out.a", Payload: []byte(body)})
	r.await("settled", 1)
	assert.Len(t, string(r.stored("OUT")[0].Data), len(body))
}

func TestEachStreamThatAnswersIsLookedAtOnce(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{Name: "WEAK", Subjects: []string{"weak.>"}, Storage: jetstream.MemoryStorage})
	warned := make(chan onefold.WarnEvent, 16)
	o := r.observer()
	o.Warned = func(e onefold.WarnEvent) { warned <- e }
	r.run(outbox.Config{Observer: o})
	for i := range 20 {
		r.emit(fmt.Sprint("a", i), onefold.Effect{Target: "out.a"})
		r.emit(fmt.Sprint("b", i), onefold.Effect{Target: "weak.a"})
	}
	r.await("settled", 40)
	select {
	case e := <-warned:
		assert.Equal(t, "relay", e.Part)
		assert.Contains(t, e.Text, "stream WEAK")
	case <-r.ctx.Done():
		require.FailNow(t, "nothing was said of the stream")
	}
	assert.Empty(t, warned)
}
