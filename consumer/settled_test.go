package consumer_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/memstore"
)

// handClock is a clock that tests set.
type handClock struct{ passed atomic.Int64 }

func (c *handClock) clock() onefold.Clock {
	start := time.Now()
	return onefold.Clock{
		Wall: func() time.Time { return start.Add(time.Duration(c.passed.Load())) },
		Mono: func() time.Duration { return time.Since(start) + time.Duration(c.passed.Load()) },
	}
}

// runTo runs a consumer until n more messages are acked, and stops it with its floor stored.
func (r *rig) runTo(h onefold.Handler, n int) {
	r.t.Helper()
	before := r.count("acked")
	w := r.start(r.config(h))
	r.awaitCount("acked", before+n)
	r.settled()
	w.end()
}

func TestWhatIsSettledIsNotRunAgainAfterItsRecordIsGone(t *testing.T) {
	for name, forget := range map[string]func(*rig){
		"the server is told to deliver again": func(r *rig) {
			_, err := r.nc.Request("$JS.API.CONSUMER.RESET.IN.work", []byte(`{"seq":1}`), 5*time.Second)
			require.NoError(r.t, err)
		},
		"the consumer is made anew from the start": func(r *rig) {
			r.deleteConsumer()
			_, err := r.js.CreateConsumer(r.ctx, "IN", jetstream.ConsumerConfig{Durable: "work", AckPolicy: jetstream.AckExplicitPolicy})
			require.NoError(r.t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var hand handClock
			r.data.Crash()
			r.open(&memstore.Options{Clock: hand.clock()})
			var runs atomic.Int64
			count := func(context.Context, *onefold.Message, *onefold.Effects) error { runs.Add(1); return nil }
			r.publishMany(10, func(i int) (string, string) { return strconv.Itoa(i), "x" })
			r.runTo(count, 10)

			hand.passed.Store(int64(48 * time.Hour)) // past the retention
			stats, err := r.st.Stats(r.ctx)
			require.NoError(t, err)
			require.Zero(t, stats.Records)
			forget(r)
			w := r.start(r.config(count))
			r.awaitCount("duplicate", 10)
			r.publish("new", "x")
			r.awaitCount("acked", 11)
			w.end()
			assert.EqualValues(t, 11, runs.Load())
		})
	}
}

func TestTheMessagesOfAStreamMadeAnewUnderTheSameNameRun(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	r.publishMany(10, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	r.runTo(counting(&runs), 10)
	require.NoError(t, r.js.DeleteStream(r.ctx, "IN"))
	r.stream(jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	r.publishMany(5, func(i int) (string, string) { return "new" + strconv.Itoa(i), "x" })
	r.runTo(counting(&runs), 5)
	assert.EqualValues(t, 15, runs.Load())
}

func TestAPurgedStreamGoesOnBehindItsFloor(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	r.publishMany(10, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	r.runTo(counting(&runs), 10)
	s, err := r.js.Stream(r.ctx, "IN")
	require.NoError(t, err)
	require.NoError(t, s.Purge(r.ctx))
	r.publishMany(5, func(i int) (string, string) { return "new" + strconv.Itoa(i), "x" })
	r.runTo(counting(&runs), 5)
	assert.EqualValues(t, 15, runs.Load())
}

func TestWhatAFilterLeftOutRunsOnceTheFilterLetsItIn(t *testing.T) {
	r := newRig(t)
	send := func(subject, id string) {
		r.send(&nats.Msg{Subject: subject, Data: []byte("x"), Header: nats.Header{onefold.HeaderID: {id}}})
	}
	send("in.b", "left out")
	send("in.a", "first")
	var runs atomic.Int64
	c := r.config(counting(&runs))
	c.FilterSubjects = []string{"in.a"}
	w := r.start(c)
	r.awaitCount("acked", 1)
	r.settled()
	w.end()
	r.deleteConsumer()
	c.FilterSubjects = []string{"in.>"}
	w = r.start(c)
	r.awaitCount("acked", 2)
	r.awaitCount("duplicate", 1)
	w.end()
	assert.EqualValues(t, 2, runs.Load())
	assert.Equal(t, "in.b", r.events("acked")[1].event.Subject)
	assert.Equal(t, "in.a", r.events("duplicate")[0].event.Subject, "settled under the narrow filter")
}

func TestALostConsumerOfAWorkQueueIsMadeAgain(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.js.DeleteStream(r.ctx, "IN"))
	r.stream(jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}, Retention: jetstream.WorkQueuePolicy})
	var runs atomic.Int64
	r.publishMany(10, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	r.runTo(counting(&runs), 10)
	r.deleteConsumer()
	r.publish("new", "x")
	r.runTo(counting(&runs), 1)
	assert.EqualValues(t, 11, runs.Load())
}

func TestALostConsumerIsMadeAgainBehindTheFloor(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	r.publishMany(10, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	r.runTo(counting(&runs), 10)
	r.deleteConsumer()
	r.publish("new", "x")
	r.runTo(counting(&runs), 1)
	assert.Equal(t, jetstream.DeliverByStartSequencePolicy, r.info().Config.DeliverPolicy)
	assert.EqualValues(t, 11, r.info().Config.OptStartSeq)
	assert.EqualValues(t, 11, runs.Load())
	assert.Zero(t, r.count("duplicate"))
}

func TestTheFloorStopsBelowAMessageThatIsNotSettled(t *testing.T) {
	r, g := newRig(t), newGate()
	var runs atomic.Int64
	c := r.config(func(ctx context.Context, m *onefold.Message, _ *onefold.Effects) error {
		runs.Add(1)
		if m.Sequence == 3 && runs.Load() < 10 {
			return g.pass(ctx)
		}
		return nil
	})
	c.ShutdownTimeout = time.Millisecond
	w := r.start(c)
	for i := range 5 {
		r.publish(strconv.Itoa(i), "x")
	}
	r.awaitCount("acked", 4)
	w.end() // message 3 is cancelled and goes back
	r.deleteConsumer()
	close(g.open)
	w = r.start(c)
	r.awaitCount("acked", 5)
	w.end()
	assert.LessOrEqual(t, r.info().Config.OptStartSeq, uint64(3))
}
