package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/internal/natstest"
)

// demoOrders is how many orders the demonstration has, if -n does not say.
const demoOrders = 200

// badEvery is how often one of them cannot be handled.
const badEvery = 50

// demonstrate runs the worker on a server of its own and counts what has come out.
func demonstrate(ctx context.Context, o options, log *slog.Logger) error {
	if o.n == 0 {
		o.n = demoOrders
	}
	dir, err := os.MkdirTemp("", "onefold-worker-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.data = filepath.Join(dir, "store")
	srv, err := natstest.StartAt(filepath.Join(dir, "nats"), natstest.Options{})
	if err != nil {
		return err
	}
	defer srv.Stop()
	nc, js, err := srv.Dial()
	if err != nil {
		return err
	}
	defer nc.Close()

	for stream, subjects := range map[string]string{o.stream: "orders.>", "INVOICES": "invoices.>"} {
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{subjects}}); err != nil {
			return fmt.Errorf("create stream %s: %w", stream, err)
		}
	}
	if err := publishOrders(ctx, js, o.n); err != nil {
		return err
	}
	if err := serve(ctx, js, o, log); err != nil {
		return err
	}
	if ctx.Err() != nil {
		fmt.Println("stopped before the end")
		return nil
	}
	return audit(ctx, js, o.n)
}

// publishOrders publishes n orders, each under its ID.
func publishOrders(ctx context.Context, js jetstream.JetStream, n int) error {
	for i := range n {
		o := Order{ID: fmt.Sprintf("order-%04d", i), Cents: 100 + i}
		if i%badEvery == badEvery-1 {
			o.Cents = 0
		}
		body, err := json.Marshal(o)
		if err != nil {
			return err
		}
		m := nats.NewMsg("orders.new")
		m.Data = body
		if _, err := dedupe.Stamp(onefold.Header(m.Header), "order", o.ID, "new"); err != nil {
			return err
		}
		if _, err := js.PublishMsg(ctx, m); err != nil {
			return fmt.Errorf("publish %s: %w", o.ID, err)
		}
	}
	return nil
}

// audit counts invoices and dead letters.
func audit(ctx context.Context, js jetstream.JetStream, n int) error {
	invoices, err := messages(ctx, js, "INVOICES")
	if err != nil {
		return err
	}
	dead, err := messages(ctx, js, consumer.DefaultDeadLetterStream) // the consumer has made it
	if err != nil {
		return err
	}
	for _, m := range dead {
		fmt.Printf("dead letter of %s: %s\n", m.Header.Get(consumer.HeaderDeadID), m.Header.Get(consumer.HeaderDeadReason))
	}
	fmt.Printf("%d orders, %d invoices, %d dead letters\n", n, len(invoices), len(dead))
	if len(invoices) != n-n/badEvery || len(dead) != n/badEvery {
		return errors.New("the numbers do not add up")
	}
	return nil
}

// messages reads a whole stream.
func messages(ctx context.Context, js jetstream.JetStream, name string) (all []*jetstream.RawStreamMsg, err error) {
	s, err := js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("look up stream %s: %w", name, err)
	}
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(ctx, seq)
		if err != nil {
			return nil, fmt.Errorf("read message %d of %s: %w", seq, name, err)
		}
		all = append(all, m)
	}
	return all, nil
}
