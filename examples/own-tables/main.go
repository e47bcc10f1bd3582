// Own-tables is a handler that decides by data of its own and changes it in the commit of its message.
//
// Orders reserve stock and add to their customer's total, eight at a time and each delivered twice. Whoever has decided
// on a number that has moved meanwhile is refused by the commit and runs again. In the end the stock is exactly what
// the reservations have left, and never below zero. It starts a NATS server of its own, counts, and ends.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/internal/natstest"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
)

// The orders, and what there is for them: less than they want.
const (
	orderCount    = 400
	copies        = 2
	itemCount     = 20
	customerCount = 30
	firstStock    = 35 // of each item
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "own-tables:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "onefold-own-tables-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
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
	if err := publishOrders(ctx, js); err != nil {
		return err
	}
	st, err := boltstore.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()
	if err := fill(ctx, st); err != nil {
		return fmt.Errorf("fill the stock: %w", err)
	}
	w := &warehouse{st: st}
	if err := live(ctx, js, w); err != nil {
		return err
	}
	return audit(ctx, js, w)
}

// publishOrders makes the streams and publishes every order, and then every order again.
func publishOrders(ctx context.Context, js jetstream.JetStream) error {
	for stream, subjects := range map[string]string{"ORDERS": "orders.>", "WAREHOUSE": "warehouse.>"} {
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{subjects}}); err != nil {
			return fmt.Errorf("create stream %s: %w", stream, err)
		}
	}
	for i := range orderCount * copies {
		n := i % orderCount
		o := Order{ID: orderID(n), Customer: customer(n % customerCount), Item: item(n % itemCount), Count: 1 + n%3}
		body, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: "orders.new", Data: body, Header: nats.Header{onefold.HeaderID: {o.ID}}}); err != nil {
			return fmt.Errorf("publish %s: %w", o.ID, err)
		}
	}
	return nil
}

func orderID(n int) string  { return fmt.Sprintf("order-%03d", n) }
func item(n int) string     { return fmt.Sprintf("item-%02d", n) }
func customer(n int) string { return fmt.Sprintf("customer-%02d", n) }

// live runs the service until every order is handled and every answer has left.
func live(ctx context.Context, js jetstream.JetStream, w *warehouse) error {
	var ended atomic.Int64
	done := make(chan struct{})
	count := func(onefold.DeliveryEvent) {
		if ended.Add(1) == orderCount*copies {
			close(done)
		}
	}
	work, err := consumer.New(js, w.st, consumer.Config{
		Stream: "ORDERS", Name: "warehouse", Handler: consumer.JSON(w.reserve), RetryMin: 10 * time.Millisecond,
		Observer: &onefold.Observer{Acked: count, Duplicate: count},
	})
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(w.st, outbox.Config{JetStream: js})
	if err != nil {
		return err
	}
	return onefold.Run(ctx, untilSent{done, w.st}, work, relay)
}

// untilSent is a part that ends, and with it the others, when all orders are done and their messages sent.
type untilSent struct {
	done <-chan struct{}
	st   *boltstore.Store
}

// Run waits.
func (u untilSent) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-u.done:
	}
	for n := range orderCount {
		if _, err := u.st.Wait(ctx, onefold.Key{Scope: "ORDERS/warehouse", ID: orderID(n)}); err != nil {
			return fmt.Errorf("wait for the message of %s: %w", orderID(n), err)
		}
	}
	return nil
}
