package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/internal/natstest"
)

// durable is the consumer's name.
const durable = "billing"

// orderCount is how many orders there are; each is published one to four times.
const orderCount = 1000

// world is everything around the service: its streams, the trouble it lives in, and the audit.
type world struct {
	js              jetstream.JetStream
	orders, charges string        // streams
	ackWait, retry  time.Duration // short, so that trouble is over soon
	published       int

	deliveries, handlerRuns, duplicates, failures atomic.Int64
}

// connect uses the server that NATS_URL names, or starts one.
func connect(dir string) (jetstream.JetStream, func(), error) {
	if url := os.Getenv("NATS_URL"); url != "" {
		nc, err := nats.Connect(url, nats.MaxReconnects(-1))
		if err != nil {
			return nil, nil, fmt.Errorf("connect to NATS_URL: %w", err)
		}
		js, err := jetstream.New(nc)
		return js, nc.Close, err
	}
	srv, err := natstest.StartAt(filepath.Join(dir, "nats"), natstest.Options{})
	if err != nil {
		return nil, nil, err
	}
	nc, js, err := srv.Dial()
	if err != nil {
		srv.Stop()
		return nil, nil, err
	}
	return js, func() { nc.Close(); srv.Stop() }, nil
}

// newWorld makes two streams of this run's own.
func newWorld(ctx context.Context, js jetstream.JetStream) (*world, error) {
	run := fmt.Sprintf("%08X", rand.Uint32())
	w := &world{js: js, orders: "QUICKSTART_ORDERS_" + run, charges: "QUICKSTART_CHARGES_" + run,
		ackWait: 2 * time.Second, retry: 20 * time.Millisecond}
	// The server's own window is made as short as it goes: the copies have to reach the consumer.
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: w.orders, Subjects: []string{"orders." + run}, Duplicates: 100 * time.Millisecond})
	if err != nil {
		return nil, fmt.Errorf("create stream of orders: %w", err)
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: w.charges, Subjects: []string{"charges.>"}, Duplicates: 100 * time.Millisecond})
	if err != nil {
		_ = js.DeleteStream(ctx, w.orders)
		return nil, fmt.Errorf("create stream of charges: %w", err)
	}
	return w, nil
}

func (w *world) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = w.js.DeleteStream(ctx, w.orders)
	_ = w.js.DeleteStream(ctx, w.charges)
}

// publishOrders publishes every order, then the copies: as a producer does that got no answer.
func (w *world) publishOrders(ctx context.Context) error {
	random := rand.New(rand.NewPCG(1, 2))
	copies := make([]int, orderCount)
	for i := range copies {
		copies[i] = 1 + random.IntN(4)
	}
	for round := range 4 {
		for i, n := range copies {
			if round >= n {
				continue
			}
			if err := w.publishOrder(i, round); err != nil {
				return err
			}
			w.published++
		}
		select {
		case <-w.js.PublishAsyncComplete():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (w *world) publishOrder(i, round int) error {
	o := Order{ID: fmt.Sprintf("order-%04d", i), Cents: 100 + i}
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	// The transport ID differs from copy to copy, as it does when a producer makes a new one for each try;
	// our ID is the order's.
	m := &nats.Msg{Subject: "orders." + strings.TrimPrefix(w.orders, "QUICKSTART_ORDERS_"), Data: body, Header: nats.Header{
		onefold.HeaderID: {o.ID}, jetstream.MsgIDHeader: {fmt.Sprintf("%s/%d", o.ID, round)}}}
	if _, err := w.js.PublishMsgAsync(m); err != nil {
		return fmt.Errorf("publish order: %w", err)
	}
	return nil
}

// loseWorker takes orders in the consumer's name and never answers, as a worker does that is killed: the
// server delivers them again after AckWait.
func (w *world) loseWorker(ctx context.Context) error {
	c, err := w.js.CreateConsumer(ctx, w.orders, jetstream.ConsumerConfig{Durable: durable,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: w.ackWait, MaxAckPending: consumer.DefaultMaxAckPending})
	if err != nil {
		return fmt.Errorf("create consumer: %w", err)
	}
	batch, err := c.FetchNoWait(orderCount / 5)
	if err != nil {
		return fmt.Errorf("take orders: %w", err)
	}
	for range batch.Messages() {
		w.deliveries.Add(1)
	}
	return batch.Error()
}

// unreliable lets the first run of every seventh order fail after it has asked for its charge.
func (w *world) unreliable(next onefold.Handler) onefold.Handler {
	var failed sync.Map
	return func(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
		n := w.handlerRuns.Add(1)
		if err := next(ctx, msg, fx); err != nil {
			return err
		}
		if _, again := failed.LoadOrStore(fx.Key().ID, true); !again && n%7 == 0 {
			w.failures.Add(1)
			return errors.New("the network was down for a moment")
		}
		return nil
	}
}

func (w *world) observer() *onefold.Observer {
	return &onefold.Observer{
		Received:  func(onefold.DeliveryEvent) { w.deliveries.Add(1) },
		Duplicate: func(onefold.DeliveryEvent) { w.duplicates.Add(1) },
	}
}

// untilDone waits until every order is settled and, halfway, has the server deliver everything again.
func (w *world) untilDone(ctx context.Context) {
	reset := false
	for ctx.Err() == nil {
		c, err := w.js.Consumer(ctx, w.orders, durable)
		if err == nil {
			info := c.CachedInfo()
			done := info.NumPending == 0 && info.NumAckPending == 0 && info.Delivered.Consumer > 0
			if done && reset && w.chargesSent(ctx) {
				return
			}
			if done && !reset {
				reset = true
				w.redeliverSome(ctx)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// redeliverSome forces redeliveries: it publishes some orders once more.
func (w *world) redeliverSome(ctx context.Context) {
	for i := 0; i < orderCount; i += 10 {
		if w.publishOrder(i, 4) == nil {
			w.published++
		}
	}
	select {
	case <-w.js.PublishAsyncComplete():
	case <-ctx.Done():
	}
}

// chargesSent reports whether the relay has nothing left to send.
func (w *world) chargesSent(ctx context.Context) bool {
	s, err := w.js.Stream(ctx, w.charges)
	return err == nil && s.CachedInfo().State.Msgs >= orderCount
}

// audit reads the output stream from the start and prints the ledger.
func (w *world) audit(ctx context.Context) error {
	s, err := w.js.Stream(ctx, w.charges)
	if err != nil {
		return err
	}
	charged := map[string]int{}
	last := s.CachedInfo().State.LastSeq
	for seq := s.CachedInfo().State.FirstSeq; seq <= last && last > 0; seq++ {
		m, err := s.GetMsg(ctx, seq)
		if err != nil {
			return fmt.Errorf("read charge %d: %w", seq, err)
		}
		var c Charge
		if err := json.Unmarshal(m.Data, &c); err != nil {
			return fmt.Errorf("decode charge %d: %w", seq, err)
		}
		charged[c.Order]++
	}
	charges, double := 0, 0
	for _, n := range charged {
		charges += n
		double += n - 1
	}
	lost := orderCount - len(charged)
	fmt.Printf("published    %6d messages for %d orders, each one to four times and some again\n", w.published, orderCount)
	fmt.Printf("delivered    %6d times, by a lost worker's hands and %d failed runs among others\n", w.deliveries.Load(), w.failures.Load())
	fmt.Printf("handler ran  %6d times\n", w.handlerRuns.Load())
	fmt.Printf("duplicates   %6d acked without running\n", w.duplicates.Load())
	fmt.Printf("%d orders, %d deliveries, %d charges, %d lost, %d double\n", orderCount, w.deliveries.Load(), charges, lost, double)
	if lost != 0 || double != 0 || charges != orderCount {
		return errors.New("the ledger does not balance")
	}
	return nil
}
