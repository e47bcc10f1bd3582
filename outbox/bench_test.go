package outbox_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
)

// BenchmarkRelay measures rows from the store to their settlement, next to the same messages published
// by the bare client with the same window. Both clocks stop when the last answer is in (for the relay:
// settled). Rows of 256 bytes wait in the memory store when the clock starts.
func BenchmarkRelay(b *testing.B) {
	body := make([]byte, 256)
	b.Run("bare", func(b *testing.B) {
		r := newRig(b)
		js, err := jetstream.New(r.nc, jetstream.WithPublishAsyncMaxPending(outbox.DefaultWindow))
		require.NoError(b, err)
		b.ResetTimer()
		for i := range b.N {
			m := &nats.Msg{Subject: "out.a", Data: body, Header: nats.Header{"Nats-Msg-Id": {fmt.Sprintf("%032d", i)}}}
			_, err := js.PublishMsgAsync(m)
			require.NoError(b, err)
		}
		<-js.PublishAsyncComplete()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		b.StopTimer()
		js.CleanupPublisher()
	})
	b.Run("relay", func(b *testing.B) {
		r := newRig(b)
		for i := 0; i < b.N; i += 100 {
			_, err := outbox.Enqueue(r.ctx, r.st, key(fmt.Sprint(i)), 0, func(fx *onefold.Effects) error {
				for range min(100, b.N-i) {
					fx.Publish("out.a", body)
				}
				return nil
			})
			require.NoError(b, err)
		}
		var settled atomic.Int64
		done := make(chan struct{})
		b.ResetTimer()
		stop := r.run(outbox.Config{Observer: &onefold.Observer{Settled: func(onefold.RowEvent) {
			if settled.Add(1) == int64(b.N) {
				close(done)
			}
		}}})
		<-done
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		b.StopTimer()
		require.NoError(b, stop())
	})
}
