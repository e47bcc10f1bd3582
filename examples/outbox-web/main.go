// Outbox-web is a web service that writes its own data and sends a message, both or neither.
//
// POST /orders puts an order into a bucket of the program and a message into the outbox, in one transaction. Clients
// ask several times for the same order, as they do that got no answer, several at once; each order is stored once and
// gives one message. It starts a NATS server of its own, asks itself over HTTP, counts, and ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/natstest"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "outbox-web:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "onefold-outbox-web-")
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
	placed, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err != nil {
		return fmt.Errorf("create stream: %w", err)
	}
	st, err := boltstore.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()
	if err := live(ctx, js, st); err != nil {
		return err
	}
	return audit(ctx, st, placed)
}

// live serves until the clients have their answers and the relay has sent what they asked for.
func live(ctx context.Context, js jetstream.JetStream, st *boltstore.Store) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(st, outbox.Config{JetStream: js})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", postOrder(st))
	visit := clients{url: "http://" + listener.Addr().String() + "/orders", st: st}
	// They are stopped in this order: who asks, who answers, who sends.
	return onefold.Run(ctx, visit, web{listener, mux}, relay)
}

// web is the HTTP server as a part that runs until its context ends.
type web struct {
	listener net.Listener
	handler  http.Handler
}

// Run serves until ctx ends, and then lets requests that are under way end.
func (w web) Run(ctx context.Context) error {
	server := &http.Server{Handler: w.handler, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(w.listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := server.Shutdown(last)
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
