package consumer_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/store/memstore"
)

func TestScenario_K01_ACopyWithFieldsInAnotherOrderIsADuplicateInJSONModeAndAMismatchInRawMode(t *testing.T) {
	for _, tt := range []struct {
		name        string
		fingerprint dedupe.Fingerprinter
		end         string
	}{{"JSON", dedupe.SubjectAndJSON, "duplicate"}, {"raw", dedupe.SubjectAndBody, "dead"}} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			var runs atomic.Int64
			c := r.config(counting(&runs))
			c.Fingerprint = tt.fingerprint
			w := r.start(c)
			r.publish("one", `{"id":1,"lines":[{"sku":"x","n":2}]}`)
			r.awaitCount("acked", 1)
			r.publish("one", `{"lines":[{"n":2,"sku":"x"}],"id":1}`)
			r.awaitCount(tt.end, 1)
			w.end()
			assert.EqualValues(t, 1, runs.Load())
		})
	}
}

// derived is what a run may pass on as an ID.
type derived struct{ effect, timer, call string }

func TestScenario_K16_DerivedKeysDependOnStableIDsAndNeverOnTheClock(t *testing.T) {
	r := newRig(t)
	var seen []derived
	fails := true
	h := func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		seen = append(seen, derived{fx.Key().EffectID(0), fx.Key().TimerID("later"), fx.IdempotencyKey("charge")})
		fx.Publish("out.a", "effect")
		if fails = !fails; !fails {
			return onefold.RetryAfter(time.Millisecond, context.DeadlineExceeded)
		}
		return nil
	}
	for i, skew := range []time.Duration{0, 48 * time.Hour, -48 * time.Hour} { // a process, and two later ones with other clocks and no memory
		st, err := memstore.Open(memstore.NewData(onefold.Clock{}), nil)
		require.NoError(t, err)
		c := r.config(h)
		c.Name, c.Scope = "work"+string(rune('0'+i)), "orders"
		c.Clock.Wall = func() time.Time { return time.Now().Add(skew) }
		w := r.startOn(r.js, st, c)
		if i == 0 {
			r.publish("one", "x")
		}
		r.awaitCount("acked", i+1)
		w.end()
		require.NoError(t, st.Close(r.ctx))
	}
	require.Len(t, seen, 6, "each process runs it twice")
	for _, s := range seen {
		assert.Equal(t, seen[0], s)
	}
}

func TestScenario_K18_OurOwnLimitsActFirstAndNoMessageComesForEverBecauseOfThem(t *testing.T) {
	r := newRig(t)
	st := openBolt(t)
	t.Cleanup(func() { require.NoError(t, st.Close(context.Background())) })
	r.st = st
	c := r.config(func(ctx context.Context, m *onefold.Message, fx *onefold.Effects) error {
		switch string(m.Data[:1]) {
		case "k":
			fx.Put("table", strings.Repeat("k", onefold.MaxStateKeyBytes), []byte("value"))
		case "r":
			fx.Result(make([]byte, onefold.DefaultMaxEntry+1))
		case "g":
			if _, _, err := fx.Get(ctx, "table", ""); err != nil {
				return err
			}
		}
		return nil
	})
	c.ID = func(m *onefold.Message) (string, error) { return strings.TrimPrefix(string(m.Data), "empty"), nil }
	w, relay := r.start(c), r.relay()
	long := "long" + strings.Repeat("x", 100_000) // more than a bbolt key can hold
	for _, body := range []string{long, "empty", "key", "result", "get"} {
		r.send(&nats.Msg{Subject: "in.a", Data: []byte(body)})
	}
	r.awaitCount("acked", 5)
	r.send(&nats.Msg{Subject: "in.a", Data: []byte(long)})
	r.awaitCount("duplicate", 1)
	r.settled()
	assert.Equal(t, 4, r.count("claimed"), "each runs once, the one without an ID never")
	reasons := map[string]bool{}
	for _, letter := range r.read(consumer.DefaultDeadLetterStream, 4) {
		reason := letter.Headers().Get(consumer.HeaderDeadReason)
		assert.Less(t, len(reason), onefold.MaxReasonBytes)
		switch {
		case strings.Contains(reason, "missing id"):
			reasons["empty ID"] = true
		case strings.Contains(reason, "the limit is 1024"):
			reasons["state key"] = true
		case strings.Contains(reason, "the store's limit is 8388608"):
			reasons["result"] = true
		case strings.Contains(reason, "state key in table"):
			reasons["empty state key"] = true
		}
	}
	w.end()
	relay.end()
	assert.Len(t, reasons, 4, reasons)
}
