package consumer_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

func TestAPayloadThatDoesNotDecodeIsADeadLetterWithItsBytesAndTheError(t *testing.T) {
	r := newRig(t)
	type order struct{ Amount int }
	w, relay := r.start(r.config(consumer.JSON(func(context.Context, order, *onefold.Effects) error { return nil }))), r.relay()
	r.publish("one", `{"amount": "many"`)
	r.awaitCount("acked", 1)
	r.settled()
	w.end()
	letter := r.read("ONEFOLD_DEAD", 1)[0]
	relay.end()
	assert.Equal(t, `{"amount": "many"`, string(letter.Data()))
	assert.Contains(t, letter.Headers().Get("Onefold-Dead-Reason"), "decode body as consumer_test.order")
	assert.Equal(t, "permanent", letter.Headers().Get("Onefold-Dead-Class"))
	assert.Equal(t, "1", letter.Headers().Get("Onefold-Dead-Attempts"))
	assert.Equal(t, "in.a", letter.Headers().Get("Onefold-Dead-Subject"))
	assert.Equal(t, "one", letter.Headers().Get("Onefold-Original-"+onefold.HeaderID))
	assert.Equal(t, 1, r.count("claimed"), "it is not tried again")
}

func TestAnEffectThatCanNeverLeaveIsADeadLetterThatNamesTheField(t *testing.T) {
	for name, c := range map[string]struct {
		ask  func(*onefold.Effects)
		want string
	}{
		"bad subject": {func(fx *onefold.Effects) { fx.Publish("out .a", "x") }, "subject"},
		"reserved header": {func(fx *onefold.Effects) {
			fx.Emit(onefold.Effect{Target: "out.a", Header: onefold.Header{"Nats-Msg-Id": {"1"}}})
		}, "Nats-Msg-Id"},
		"too large": {func(fx *onefold.Effects) { fx.Publish("out.a", make([]byte, 2<<20)) }, "Payload"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			w := r.start(r.config(func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
				c.ask(fx)
				return nil
			}))
			relay := r.relay()
			r.publish("one", "x")
			r.awaitCount("acked", 1)
			w.end()
			letter := r.read("ONEFOLD_DEAD", 1)[0]
			relay.end()
			assert.Contains(t, letter.Headers().Get("Onefold-Dead-Reason"), c.want)
			assert.Contains(t, letter.Headers().Get("Onefold-Dead-Reason"), "effect 0")
			assert.Equal(t, 1, r.count("claimed"))
		})
	}
}

func TestAPanicInAnIDSourceOrAFingerprinterIsADeadLetter(t *testing.T) {
	r := newRig(t)
	c := r.config(nothing)
	c.ID = func(*onefold.Message) (string, error) { panic("no such field") }
	w, relay := r.start(c), r.relay()
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	letter := r.read("ONEFOLD_DEAD", 1)[0]
	relay.end()
	assert.Contains(t, letter.Headers().Get("Onefold-Dead-Reason"), "no such field")
}

func TestBlankIDsFromAnySourceAreMissingOnes(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	c := r.config(counting(&runs))
	c.ID = func(*onefold.Message) (string, error) { return "  ", nil }
	w, relay := r.start(c), r.relay()
	r.publish("one", "x")
	r.publish("two", "x")
	r.awaitCount("acked", 2)
	w.end()
	letters := r.read("ONEFOLD_DEAD", 2)
	relay.end()
	assert.Zero(t, runs.Load())
	for _, letter := range letters {
		assert.Equal(t, "missing id", letter.Headers().Get("Onefold-Dead-Reason"))
	}
}

func TestADeadLetterIsToldOfWithItsClassAndItsError(t *testing.T) {
	r := newRig(t)
	reason := errors.New("no such order")
	w, relay := r.start(r.config(func(context.Context, *onefold.Message, *onefold.Effects) error { return onefold.Permanent(reason) })), r.relay()
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	r.publish("one", "x")
	r.awaitCount("duplicate", 1)
	w.end()
	relay.end()
	e := r.events("dead")[0].event
	assert.Equal(t, onefold.ClassPermanent, e.Class)
	assert.ErrorIs(t, e.Err, reason)
	assert.Equal(t, onefold.DeadLettered, e.Outcome)
	assert.Equal(t, onefold.DeadLettered, r.events("duplicate")[0].event.Outcome, "a repeat of a dead letter is told apart from one of a success")
}

func TestGivingUpOnAStateThatHasMovedIsLookedAtAgain(t *testing.T) {
	r := newRig(t)
	put := func(value string) {
		c := &onefold.Commit{Entry: onefold.Entry{Writes: []onefold.Write{
			{Table: "pair", Key: "a", Value: []byte(value)}, {Table: "pair", Key: "b", Value: []byte(value)}}}}
		require.NoError(t, r.st.Commit(r.ctx, []*onefold.Commit{c}))
		require.NoError(t, c.Err)
	}
	put("1")
	var runs atomic.Int64
	w := r.start(r.config(func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		a, _, err := fx.Get(ctx, "pair", "a")
		if err != nil {
			return err
		}
		if runs.Add(1) == 1 {
			put("2") // both move between the two reads
		}
		b, _, err := fx.Get(ctx, "pair", "b")
		if err != nil {
			return err
		}
		if string(a) != string(b) {
			return onefold.Permanent(errors.New("a and b are never different"))
		}
		return nil
	}))
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	assert.EqualValues(t, 2, runs.Load())
	assert.Zero(t, r.count("dead"))
}

func TestAHandlerThatGoesOnReportingAConflictUsesUpItsAttempts(t *testing.T) {
	r := newRig(t)
	c := r.config(func(context.Context, *onefold.Message, *onefold.Effects) error { return onefold.ErrConflict })
	c.MaxAttempts = 2
	w, relay := r.start(c), r.relay()
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	letter := r.read("ONEFOLD_DEAD", 1)[0]
	relay.end()
	assert.Equal(t, string(onefold.ClassConflict), letter.Headers().Get("Onefold-Dead-Class"))
}

func TestAFailingMessageIsRetriedWithGrowingDelaysAndThenADeadLetterWithBothReasons(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	c := r.config(func(context.Context, *onefold.Message, *onefold.Effects) error {
		if runs.Add(1) < 4 {
			return errors.New("first kind")
		}
		return errors.New("second\nkind")
	})
	c.MaxAttempts = 4
	w, relay := r.start(c), r.relay()
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	r.settled()
	w.end()
	letter := r.read("ONEFOLD_DEAD", 1)[0]
	relay.end()
	assert.EqualValues(t, 4, runs.Load())
	retries := r.events("retried")
	assert.Len(t, retries, 3)
	for i := 1; i < len(retries); i++ {
		assert.Greater(t, retries[i].event.Delay, retries[i-1].event.Delay)
	}
	assert.Equal(t, "attempt 4 of 4: second kind", letter.Headers().Get("Onefold-Dead-Reason"))
	assert.Equal(t, "first kind", letter.Headers().Get("Onefold-Dead-Earlier-Error"))
	assert.Equal(t, "4", letter.Headers().Get("Onefold-Dead-Attempts"))
}

func TestALongBinaryIDWorksAndReachesItsDeadLetterUnchanged(t *testing.T) {
	r := newRig(t)
	id := strings.Repeat("\x00\n\xff:", 2500)
	c := r.config(func(context.Context, *onefold.Message, *onefold.Effects) error {
		return onefold.Permanent(errors.New("no"))
	})
	c.ID = func(*onefold.Message) (string, error) { return id, nil }
	w, relay := r.start(c), r.relay()
	r.send(&nats.Msg{Subject: "in.a", Data: []byte("x")})
	r.awaitCount("acked", 1)
	w.end()
	h := r.read("ONEFOLD_DEAD", 1)[0].Headers()
	relay.end()
	assert.Equal(t, "base64", h.Get("Onefold-Dead-Encoding"))
	got, err := base64.StdEncoding.DecodeString(h.Get("Onefold-Dead-Id"))
	assert.NoError(t, err)
	assert.Equal(t, id, string(got))
	scope, err := base64.StdEncoding.DecodeString(h.Get("Onefold-Dead-Scope"))
	assert.NoError(t, err)
	assert.Equal(t, "IN/work", string(scope))
}

func TestAMessageAtTheServersLimitBecomesADeadLetterInParts(t *testing.T) {
	r := newRig(t)
	body := make([]byte, int(r.nc.MaxPayload()))
	body[len(body)-1] = 7
	w, relay := r.start(r.config(nothing)), r.relay()
	r.send(&nats.Msg{Subject: "in.a", Data: body}) // no room for an ID
	r.awaitCount("acked", 1)
	r.settled()
	w.end()
	parts := r.read("ONEFOLD_DEAD", 3)
	relay.end()
	assert.Equal(t, "1/3", parts[0].Headers().Get("Onefold-Dead-Part"))
	assert.Equal(t, "missing id", parts[0].Headers().Get("Onefold-Dead-Class"))
	assert.Equal(t, body, append(parts[1].Data(), parts[2].Data()...))
}

func TestARetryAfterIsObeyed(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	w := r.start(r.config(func(context.Context, *onefold.Message, *onefold.Effects) error {
		if runs.Add(1) == 1 {
			return onefold.RetryAfter(0, errors.New("at once"))
		}
		return nil
	}))
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	assert.Zero(t, r.events("retried")[0].event.Delay)
	assert.Equal(t, 2, r.events("acked")[0].event.Attempt)
}
