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
	"syscall"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
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
	if err := world.live(ctx, filepath.Join(dir, "store")); err != nil {
		return err
	}
	return world.audit(ctx)
}

// serve is all that a service of yours has to do.
func serve(ctx context.Context, js jetstream.JetStream, dir string, c consumer.Config) (err error) {
	st, err := boltstore.Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()

	work, err := consumer.New(js, st, c)
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(st, outbox.Config{JetStream: js, Observer: c.Observer})
	if err != nil {
		return err
	}
	return onefold.Run(ctx, work, relay) // until ctx ends; the relay ends last
}
