package consumer_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/internal/natstest"
)

// BenchmarkSlowHandler has 200 messages wait for 4 workers that take 200 ms each, with an AckWait of one
// second. It reports how often a message ran more than once (0 is the promise), and deliveries and
// give-backs for each message: what is delivered again was given back before.
func BenchmarkSlowHandler(b *testing.B) {
	srv := natstest.Start(b)
	_, js := srv.Connect(b)
	const messages = 200
	var runs, received, givenBack atomic.Int64
	for range b.N {
		publishSmall(b, js, "SLOW", messages)
		b.ResetTimer()
		drain(b, js, consumer.Config{Stream: "SLOW", Name: "slow", Concurrency: 4, AckWait: time.Second,
			Handler: func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error {
				runs.Add(1)
				return after(ctx, 200*time.Millisecond)
			}}, messages, &onefold.Observer{
			Received:  func(onefold.DeliveryEvent) { received.Add(1) },
			GivenBack: func(onefold.DeliveryEvent) { givenBack.Add(1) },
		}, nil)
		require.NoError(b, js.DeleteStream(context.Background(), "SLOW"))
	}
	n := float64(b.N)
	b.ReportMetric(float64(runs.Load())/n-messages, "ran-again")
	b.ReportMetric(float64(received.Load())/n/messages, "deliveries/msg")
	b.ReportMetric(float64(givenBack.Load())/n/messages, "given-back/msg")
}

// BenchmarkMillionThenIdle sends a million messages through boltstore and reports what is left when all
// are acked and the consumer idles: claims (two are the consumer's own, of scope and durable), heap above the
// start per message (the index of the active segment), and the goroutines of ours once it has ended.
func BenchmarkMillionThenIdle(b *testing.B) {
	const messages = 1_000_000
	srv := natstest.Start(b)
	_, js := srv.Connect(b)
	for range b.N {
		publishSmall(b, js, "MILLION", messages)
		heap := heapInUse()
		st := openBolt(b)
		b.ResetTimer()
		var idle onefold.Stats
		var grown float64
		drainOn(b, js, st, consumer.Config{Stream: "MILLION", Name: "million",
			Handler: func(context.Context, *onefold.Message, *onefold.Effects) error { return nil }}, messages, &onefold.Observer{}, func() {
			b.StopTimer()
			var err error
			idle, err = st.Stats(context.Background())
			require.NoError(b, err)
			grown = heapInUse() - heap
		})
		require.NoError(b, st.Close(context.Background()))
		b.ReportMetric(float64(idle.Claims), "claims")
		b.ReportMetric(grown/messages, "heap-B/msg")
		b.ReportMetric(ourGoroutines(), "goroutines")
		require.NoError(b, js.DeleteStream(context.Background(), "MILLION"))
	}
}

func heapInUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// ourGoroutines counts the goroutines that run code of the consumer or the store. The server in this
// process has others, for its streams.
func ourGoroutines() (n float64) {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		if strings.Contains(stack, "onefold/consumer.(") || strings.Contains(stack, "onefold/store/") {
			n++
		}
	}
	return n
}

// publishSmall makes a stream that holds n messages, each with an ID of its own. Its window is short, so
// that the server's memory of IDs is not measured with ours.
func publishSmall(b *testing.B, js jetstream.JetStream, stream string, n int) {
	_, err := js.CreateStream(context.Background(), jetstream.StreamConfig{Name: stream, Subjects: []string{stream}, Duplicates: 100 * time.Millisecond})
	require.NoError(b, err)
	for i := range n {
		m := &nats.Msg{Subject: stream, Data: []byte("x"), Header: nats.Header{onefold.HeaderID: {benchID(i)}}}
		_, err := js.PublishMsgAsync(m)
		require.NoError(b, err)
	}
	<-js.PublishAsyncComplete()
}

// drain runs a consumer on a store of its own until n messages are acked.
func drain(b *testing.B, js jetstream.JetStream, c consumer.Config, n int64, obs *onefold.Observer, idle func()) {
	st := openBolt(b)
	drainOn(b, js, st, c, n, obs, idle)
	require.NoError(b, st.Close(context.Background()))
}

func drainOn(b *testing.B, js jetstream.JetStream, st onefold.Store, c consumer.Config, n int64, obs *onefold.Observer, idle func()) {
	var acked atomic.Int64
	all := make(chan struct{})
	obs.Acked = func(onefold.DeliveryEvent) {
		if acked.Add(1) == n {
			close(all)
		}
	}
	c.Observer = obs
	work, err := consumer.New(js, st, c)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- work.Run(ctx) }()
	<-all
	if idle != nil {
		idle()
	}
	cancel()
	require.NoError(b, <-done)
}
