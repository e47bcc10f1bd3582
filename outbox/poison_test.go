package outbox_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
)

// quick makes refused rows come again soon.
var quick = outbox.Config{MaxAttempts: 4, RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond}

func TestScenario_O11_ARowThatNoStreamTakesIsParkedAndOthersMove(t *testing.T) {
	r := newRig(t)
	r.run(quick)
	r.emit("poison", onefold.Effect{Target: "nowhere.a"})
	r.emitMany("m", 20, "out.a")
	r.await("settled", 20)
	parked := r.await("parked", 1)[0].row
	assert.Equal(t, 4, parked.Attempt)
	assert.Equal(t, onefold.ClassRefused, parked.Class)
	r.requireEachOnce("m", 20)

	items := r.parked()
	require.Len(t, items, 1)
	assert.Contains(t, items[0].Reason, "given up after 4 attempts")
	assert.Contains(t, items[0].Reason, `no stream captures subject "nowhere.a": create one, or correct the subject`)
	require.ErrorIs(t, parked.Err, jetstream.ErrNoStreamResponse)
	assert.Equal(t, "nowhere.a", items[0].Row.Effect.Target)
}

func TestScenario_O24_ARefusedRowWaitsLongerEachTime(t *testing.T) {
	r := newRig(t)
	r.run(quick)
	r.emit("poison", onefold.Effect{Target: "nowhere.a"})
	r.await("parked", 1)
	delayed := r.events("delayed")
	require.Len(t, delayed, 3)
	for i, e := range delayed {
		assert.Equal(t, i+1, e.row.Attempt)
		assert.Positive(t, e.row.Delay)
		if i > 0 {
			assert.Greater(t, e.row.Delay, delayed[i-1].row.Delay)
		}
	}
}

func TestScenario_O21_ARefusedRowDoesNotFailItsBatch(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{Name: "TINY", Subjects: []string{"tiny.>"}, MaxMsgSize: 300})
	for i := range 10 {
		id := string(rune('a' + i))
		r.emit("big-"+id, onefold.Effect{Target: "tiny.a", Payload: []byte(strings.Repeat("x", 500))})
		r.emit("fit-"+id, onefold.Effect{Target: "tiny.a"})
	}
	r.run(quick)
	r.await("settled", 10)
	for _, e := range r.await("parked", 10) {
		assert.Equal(t, 1, e.row.Attempt, "a message that can never fit is not tried again")
		assert.Contains(t, e.row.Err.Error(), "message size exceeds maximum allowed")
	}
	assert.Len(t, r.stored("TINY"), 10)
}

func TestScenario_O13_AParkedRowHoldsItsOrderKeyAndNoOther(t *testing.T) {
	r := newRig(t)
	r.emit("a1", onefold.Effect{Target: "nowhere.a", OrderKey: "a"})
	r.emit("a2", onefold.Effect{Target: "out.a", OrderKey: "a"})
	r.emit("b1", onefold.Effect{Target: "out.b", OrderKey: "b"})
	r.run(quick)
	r.await("parked", 1)
	r.await("settled", 1)
	r.emit("b2", onefold.Effect{Target: "out.b", OrderKey: "b"})
	r.await("settled", 2)
	for _, m := range r.stored("OUT") {
		assert.Equal(t, "out.b", m.Subject)
	}

	items := r.parked()
	require.Len(t, items, 1)
	require.NoError(t, r.st.Settle(r.ctx, []onefold.Settlement{{Row: *items[0].Row, State: onefold.Discarded, Reason: "test"}}))
	r.await("settled", 3)
	assert.Len(t, r.stored("OUT"), 3)
}

func TestSkipParkedLetsLaterRowsOfAnOrderKeyPass(t *testing.T) {
	r := newRig(t)
	r.emit("a1", onefold.Effect{Target: "nowhere.a", OrderKey: "a"})
	r.emit("a2", onefold.Effect{Target: "out.a", OrderKey: "a"})
	c := quick
	c.SkipParked = true
	r.run(c)
	r.await("parked", 1)
	r.await("settled", 1)
	assert.Len(t, r.stored("OUT"), 1)
}

func TestAResumedRowGoesOutWhenItsStreamExists(t *testing.T) {
	r := newRig(t)
	r.run(quick)
	r.emit("early", onefold.Effect{Target: "later.a"})
	r.await("parked", 1)
	r.stream(jetstream.StreamConfig{Name: "LATER", Subjects: []string{"later.>"}})
	items := r.parked()
	require.Len(t, items, 1)
	require.NoError(t, r.st.Settle(r.ctx, []onefold.Settlement{{Row: *items[0].Row, State: onefold.Delayed}}))
	r.await("settled", 1)
	assert.Len(t, r.stored("LATER"), 1)
}

func TestARowThatThisRelayCannotSendIsParkedWithItsReason(t *testing.T) {
	r := newRig(t)
	commit := func(id string, e onefold.Effect) {
		k := key(id)
		e.ID = k.EffectID(0)
		c := &onefold.Commit{Entry: onefold.Entry{
			Key: k, Outcome: onefold.Succeeded, Retain: time.Hour, Effects: []onefold.Effect{e},
		}}
		require.NoError(t, r.st.Commit(r.ctx, []*onefold.Commit{c}))
		require.NoError(t, c.Err)
	}
	commit("kind", onefold.Effect{Kind: "http", Target: "https://example.com"})
	commit("conn", onefold.Effect{Kind: onefold.KindMessage, Target: "out.a", Conn: "other-account"})
	r.run(quick)
	r.await("parked", 2)
	reasons := ""
	for _, item := range r.parked() {
		reasons += item.Reason + "\n"
	}
	assert.Contains(t, reasons, `kind "http"`)
	assert.Contains(t, reasons, `connection "other-account"`)
	assert.Empty(t, r.stored("OUT"))
}

// silentJetStream never answers which stream takes a subject.
type silentJetStream struct {
	jetstream.JetStream
	asked atomic.Int64
}

func (js *silentJetStream) StreamNameBySubject(ctx context.Context, _ string) (string, error) {
	js.asked.Add(1)
	<-ctx.Done()
	return "", ctx.Err()
}

func TestRowsOfManyUnknownSubjectsHoldUpNoOther(t *testing.T) {
	r := newRig(t)
	js := &silentJetStream{JetStream: r.js}
	for i := range 50 {
		r.emit(fmt.Sprintf("poison-%d", i), onefold.Effect{Target: fmt.Sprintf("nowhere.%d", i)})
	}
	r.emitMany("m", 50, "out.a")
	frozen := func() time.Duration { return 0 } // the silence after the first question never ends
	r.run(outbox.Config{JetStream: js, PublishTimeout: 500 * time.Millisecond, MaxAttempts: 1, Clock: onefold.Clock{Mono: frozen}})
	r.await("settled", 50)
	for _, e := range r.await("delayed", 50) {
		assert.NotEqual(t, onefold.ClassRefused, e.row.Class, "nobody has said that no stream takes it")
	}
	assert.EqualValues(t, 1, js.asked.Load())
	assert.Empty(t, r.events("parked"))
}
