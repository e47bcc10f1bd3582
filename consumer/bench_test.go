package consumer_test

import (
	"context"
	"fmt"
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

// benchMessages is how many messages one measurement takes.
const benchMessages = 200_000

// benchPull is the pull size of the bare loop: the largest prefetch of the consumer.
const benchPull = 8192

// BenchmarkUnique and BenchmarkDuplicates compare onefold with a bare Consume and Ack of the same stream,
// interleaved, on the same server and connection: "x-bare" is bare time / onefold time. Both clocks stop
// when the server's ack floor reaches the last message.
func BenchmarkUnique(b *testing.B)       { benchPipeline(b, 1, openBolt) }
func BenchmarkDuplicates90(b *testing.B) { benchPipeline(b, 10, openBolt) }

// BenchmarkUniqueMemory is the same over the reference store: what the pipeline costs without a disk.
func BenchmarkUniqueMemory(b *testing.B) { benchPipeline(b, 1, openMemory) }

func benchPipeline(b *testing.B, copies int, open func(testing.TB) onefold.Store) {
	srv := natstest.Start(b)
	nc, js := srv.Connect(b)
	publishBench(b, js, copies)
	var bare, ours time.Duration
	for i := range b.N {
		bare += runBare(b, js, fmt.Sprintf("bare-%d", i))
		ours += runOnefold(b, nc, js, open(b), fmt.Sprintf("onefold-%d", i))
	}
	b.ReportMetric(float64(bare)/float64(ours), "x-bare")
	b.ReportMetric(float64(b.N)*benchMessages/bare.Seconds(), "bare-msgs/s")
	b.ReportMetric(float64(b.N)*benchMessages/ours.Seconds(), "msgs/s")
	b.ReportMetric(0, "ns/op")
}

// publishBench fills the stream with benchMessages of 256 bytes, each ID copies times in a row.
func publishBench(b *testing.B, js jetstream.JetStream, copies int) {
	ctx := context.Background()
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench"}, Duplicates: 100 * time.Millisecond})
	require.NoError(b, err)
	for i := range benchMessages {
		body := make([]byte, 256)
		copy(body, fmt.Sprintf("message %d", i/copies))
		m := &nats.Msg{Subject: "bench", Data: body, Header: nats.Header{onefold.HeaderID: {benchID(i / copies)}}}
		_, err := js.PublishMsgAsync(m)
		require.NoError(b, err)
	}
	<-js.PublishAsyncComplete()
}

func benchID(i int) string { return fmt.Sprintf("order-%016d", i) }

func benchConfig(name string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: consumer.DefaultMaxAckPending}
}

func runBare(b *testing.B, js jetstream.JetStream, name string) time.Duration {
	ctx := context.Background()
	c, err := js.CreateConsumer(ctx, "BENCH", benchConfig(name))
	require.NoError(b, err)
	start := time.Now()
	var acked atomic.Int64
	all := make(chan struct{})
	stop, err := c.Consume(func(m jetstream.Msg) {
		_ = m.Ack()
		if acked.Add(1) == benchMessages {
			close(all)
		}
	}, jetstream.PullMaxMessages(benchPull))
	require.NoError(b, err)
	<-all
	awaitAckFloor(b, c)
	took := time.Since(start)
	stop.Stop()
	require.NoError(b, js.DeleteConsumer(ctx, "BENCH", name))
	return took
}

func runOnefold(b *testing.B, _ *nats.Conn, js jetstream.JetStream, st onefold.Store, name string) time.Duration {
	c, err := js.CreateConsumer(context.Background(), "BENCH", benchConfig(name))
	require.NoError(b, err)
	var acked atomic.Int64
	all := make(chan struct{})
	count := func(onefold.DeliveryEvent) {
		if acked.Add(1) == benchMessages {
			close(all)
		}
	}
	work, err := consumer.New(js, st, consumer.Config{Stream: "BENCH", Name: name, Concurrency: 8,
		Handler:  func(context.Context, *onefold.Message, *onefold.Effects) error { return nil },
		Observer: &onefold.Observer{Acked: count, Duplicate: count}})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	start := time.Now()
	go func() { done <- work.Run(ctx) }()
	<-all
	awaitAckFloor(b, c)
	took := time.Since(start)
	cancel()
	require.NoError(b, <-done)
	require.NoError(b, js.DeleteConsumer(context.Background(), "BENCH", name))
	require.NoError(b, st.Close(context.Background()))
	return took
}

// awaitAckFloor asks the server until every message is acked.
func awaitAckFloor(b *testing.B, c jetstream.Consumer) {
	for {
		info, err := c.Info(context.Background())
		require.NoError(b, err)
		if info.AckFloor.Stream >= benchMessages {
			return
		}
	}
}
