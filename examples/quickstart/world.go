package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// The streams of this example. They are removed at the end, and at the start if an earlier run was killed.
const (
	ordersStream  = "QUICKSTART_ORDERS"
	chargesStream = "QUICKSTART_CHARGES"
	deadStream    = "QUICKSTART_DEAD"
	description   = "made by the quickstart of onefold"
)

// world is everything around the service: its streams, the trouble it lives in, and the audit.
type world struct {
	js        jetstream.JetStream
	published int

	deliveries, handlerRuns, duplicates, failures atomic.Int64
}

// ackWait is short, so that trouble is over soon.
const ackWait = 2 * time.Second

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

// newWorld makes the streams.
func newWorld(ctx context.Context, js jetstream.JetStream) (*world, error) {
	w := &world{js: js}
	for name, subjects := range map[string]string{ordersStream: "quickstart.orders", chargesStream: "charges.>", deadStream: "quickstart.dead"} {
		if err := w.clear(ctx, name); err != nil {
			return nil, err
		}
		// The server's own window is made as short as it goes: the copies have to reach the consumer.
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Description: description,
			Subjects: []string{subjects}, Duplicates: 100 * time.Millisecond})
		if err != nil {
			return nil, fmt.Errorf("create stream %s for %s: %w", name, subjects, err)
		}
	}
	return w, nil
}

// clear removes what a killed run has left behind, and nothing else.
func (w *world) clear(ctx context.Context, name string) error {
	s, err := w.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up stream %s: %w", name, err)
	}
	if s.CachedInfo().Config.Description != description {
		return fmt.Errorf("stream %s exists and is not this example's; use another server", name)
	}
	return w.js.DeleteStream(ctx, name)
}

func (w *world) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, name := range []string{ordersStream, chargesStream, deadStream} {
		_ = w.js.DeleteStream(ctx, name)
	}
}

// live runs the service in this world until everything is settled.
func (w *world) live(ctx context.Context, dir string) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer func() { cancel(); watch.Wait() }()
	watch.Go(func() { w.untilDone(ctx); cancel() })
	return serve(ctx, w.js, dir, consumer.Config{
		Stream: ordersStream, Name: durable,
		Handler:  w.unreliable(consumer.JSON(handle)),
		AckWait:  ackWait,
		RetryMin: 20 * time.Millisecond,
		Observer: w.observer(), DeadLetterSubject: "quickstart.dead",
	})
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
	m := &nats.Msg{Subject: "quickstart.orders", Data: body, Header: nats.Header{
		onefold.HeaderID: {o.ID}, jetstream.MsgIDHeader: {fmt.Sprintf("%s/%d", o.ID, round)}}}
	if _, err := w.js.PublishMsgAsync(m); err != nil {
		return fmt.Errorf("publish order: %w", err)
	}
	return nil
}

// loseWorker takes orders in the consumer's name and never answers, as a worker does that is killed: the
// server delivers them again after AckWait.
func (w *world) loseWorker(ctx context.Context) error {
	c, err := w.js.CreateConsumer(ctx, ordersStream, jetstream.ConsumerConfig{Durable: durable,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: consumer.DefaultMaxAckPending})
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

// untilDone waits until every order is settled and, halfway, publishes some of them once more.
func (w *world) untilDone(ctx context.Context) {
	repeated := false
	for ctx.Err() == nil {
		c, err := w.js.Consumer(ctx, ordersStream, durable)
		if err == nil {
			info := c.CachedInfo()
			done := info.NumPending == 0 && info.NumAckPending == 0 && info.Delivered.Consumer > 0
			if done && repeated && w.chargesSent(ctx) {
				return
			}
			if done && !repeated {
				repeated = true
				w.publishSomeAgain(ctx)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// publishSomeAgain publishes orders that are long done.
func (w *world) publishSomeAgain(ctx context.Context) {
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
	s, err := w.js.Stream(ctx, chargesStream)
	return err == nil && s.CachedInfo().State.Msgs >= orderCount
}

// audit reads the output stream from the start and prints the ledger.
func (w *world) audit(ctx context.Context) error {
	s, err := w.js.Stream(ctx, chargesStream)
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
