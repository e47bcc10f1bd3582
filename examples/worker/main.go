// Worker is a service as one would deploy it: flags, a log, a store on disk, dead letters, probes for readiness and
// liveness, and a shutdown on SIGTERM that lets running handlers end and sends what they asked for.
//
//	go run ./examples/worker -nats nats://127.0.0.1:4222 -stream ORDERS -data /var/lib/billing -http 127.0.0.1:8080
//
// It reads orders from a stream that exists, and asks for an invoice for each. Without -nats it starts a server of its
// own with some orders in it, among them a few that cannot be handled, works them off and ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
)

// options are what is set from outside.
type options struct {
	url, stream, durable, data string
	http                       string
	concurrency, n             int
	drain                      time.Duration
	verbose                    bool
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.StringVar(&o.url, "nats", "", "URL of the NATS server; empty: a demonstration with a server of its own")
	flags.StringVar(&o.stream, "stream", "ORDERS", "stream to read")
	flags.StringVar(&o.durable, "durable", "billing", "name of the durable consumer")
	flags.StringVar(&o.data, "data", "onefold-data", "directory of the store; one for each process")
	flags.IntVar(&o.concurrency, "concurrency", consumer.DefaultConcurrency, "handlers that run at once")
	flags.DurationVar(&o.drain, "drain", consumer.DefaultShutdownTimeout, "how long running handlers may take after SIGTERM")
	flags.StringVar(&o.http, "http", "127.0.0.1:0", "where /readyz and /livez are served; empty: nowhere")
	flags.IntVar(&o.n, "n", 0, "end after so many messages; 0: go on until SIGTERM (in the demonstration: 200)")
	flags.BoolVar(&o.verbose, "v", false, "log every step of every message")
	err = flags.Parse(args)
	return o, err
}

func main() {
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2) // the flag set has said why
	}
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, log); err != nil {
		log.Error("stopped", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, log *slog.Logger) error {
	if o.url == "" {
		return demonstrate(ctx, o, log)
	}
	// The client keeps reconnecting for ever, and the consumer waits for the server if it is not there yet.
	nc, err := nats.Connect(o.url, nats.Name(o.durable), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", o.url, err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return serve(ctx, js, o, log)
}

// serve works until ctx ends, or o.n messages are done.
func serve(ctx context.Context, js jetstream.JetStream, o options, log *slog.Logger) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	st, err := boltstore.Open(o.data, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()

	observer := onefold.SlogObserver(log)
	if o.n > 0 {
		newCountdown(o.n, stop).watch(observer)
	}
	work, err := consumer.New(js, st, consumer.Config{
		Stream: o.stream, Name: o.durable, Handler: consumer.JSON(invoice),
		Concurrency: o.concurrency, ShutdownTimeout: o.drain, Observer: observer,
	})
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(st, outbox.Config{JetStream: js, Observer: observer})
	if err != nil {
		return err
	}
	parts := []onefold.Part{work, relay} // the consumer ends first, so that the relay sends what it has left
	if o.http != "" {
		parts = append(parts, probes{o.http, work, log})
	}
	return onefold.Run(ctx, parts...)
}
