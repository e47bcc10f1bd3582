// Ordered handles the events of many accounts at once, and those of one account one after the other.
//
// Events of 20 accounts are mixed in one stream, some of them twice. 16 handlers work on them at once, and the outcome of
// each depends on the one before it in its account: a fee is a part of the balance. One event fails as long as other
// accounts have work left: it holds up its own account, and nobody else. Each event asks for one entry in a ledger, and
// the entries of an account leave in its order, too. It starts a NATS server of its own, checks the ledger, and ends.
//
// What consumer.Config.OrderBy promises is an order of the messages that this process holds: no two of one account run at
// once, and none starts before an earlier one that has arrived here is done or a dead letter. With one process on the
// durable, as here, that is the order of the stream. Several processes on one durable have an order each, and not one
// together: where one process is not enough make partitions, a durable with a filter subject and a store of its own for
// each. docs/guarantees.md says it in full.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/internal/natstest"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the events are not through after a minute"))
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "ordered:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "onefold-ordered-")
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
	messages, err := publishEvents(ctx, js)
	if err != nil {
		return err
	}
	st, err := boltstore.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()
	b := &bank{}
	if err := live(ctx, js, st, b, messages); err != nil {
		return err
	}
	return audit(ctx, js, b, messages)
}

// live runs the service until so many messages are answered and every entry has left.
func live(ctx context.Context, js jetstream.JetStream, st *boltstore.Store, b *bank, messages int) error {
	var answered atomic.Int64
	done := make(chan struct{})
	count := func(onefold.DeliveryEvent) {
		if answered.Add(1) == int64(messages) {
			close(done)
		}
	}
	work, err := consumer.New(js, st, consumer.Config{
		Stream: "ACCOUNTS", Name: "bank", Handler: consumer.JSON(b.post), Concurrency: 16, RetryMin: 50 * time.Millisecond,
		OrderBy:  func(m *onefold.Message) string { return m.Subject }, // each account has a subject of its own
		Observer: &onefold.Observer{Acked: count, Duplicate: count},
	})
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(st, outbox.Config{JetStream: js})
	if err != nil {
		return err
	}
	err = onefold.Run(ctx, untilSent{done, st}, work, relay)
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return err
}

// untilSent is a part that ends, and with it the others, when all events are done and their entries sent.
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
	for e := range events() {
		if _, err := u.st.Wait(ctx, onefold.Key{Scope: "ACCOUNTS/bank", ID: e.ID}); err != nil {
			return fmt.Errorf("wait for the entry of %s: %w", e.ID, err)
		}
	}
	return nil
}
