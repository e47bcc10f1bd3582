// Quickstart shows the main job: orders arrive several times, each is charged once.
//
// It publishes 1,000 orders, each one to four times under the same ID, lets a worker die with orders in
// its hands and handlers fail so that the server delivers again, and then counts the charges on the output
// stream. It starts a NATS server of its own, or uses the one that NATS_URL names.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "onefold-quickstart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	js, disconnect, err := connect(dir)
	if err != nil {
		return err
	}
	defer disconnect()
	world, err := newWorld(ctx, js)
	if err != nil {
		return err
	}
	defer world.remove()
	if err := world.publishOrders(ctx); err != nil {
		return err
	}
	if err := world.loseWorker(ctx); err != nil {
		return err
	}
	if err := work(ctx, js, filepath.Join(dir, "store"), world); err != nil {
		return err
	}
	return world.audit(ctx)
}

// work is the part that a service of yours would contain.
func work(ctx context.Context, js jetstream.JetStream, dir string, w *world) (err error) {
	st, err := boltstore.Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()

	c, err := consumer.New(js, st, consumer.Config{
		Stream: w.orders, Name: durable,
		Handler:  w.unreliable(consumer.JSON(handle)),
		AckWait:  w.ackWait,
		RetryMin: w.retry,
		Observer: w.observer(),
	})
	if err != nil {
		return err
	}
	r, err := outbox.NewRelay(st, outbox.Config{JetStream: js})
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { w.untilDone(ctx); cancel() }()
	return onefold.Run(ctx, c, r)
}
