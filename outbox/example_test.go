package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/natstest"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/memstore"
)

func ExampleNewRelay() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	js, stop, err := exampleServer(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	st := memstore.New()
	defer func() { _ = st.Close(context.Background()) }()

	relay, err := outbox.NewRelay(st, outbox.Config{
		JetStream: js,
		Observer: &onefold.Observer{Settled: func(e onefold.RowEvent) {
			fmt.Println("sent to", e.Target)
			cancel() // the example has seen enough
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = outbox.Enqueue(ctx, st, onefold.Key{Scope: "signup", ID: "anna"}, 0, func(fx *onefold.Effects) error {
		fx.Publish("mail.welcome", map[string]string{"to": "anna"})
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stopped:", relay.Run(ctx))
	// Output:
	// sent to mail.welcome
	// stopped: <nil>
}

func ExampleEnqueue() {
	ctx := context.Background()
	st := memstore.New()
	defer func() { _ = st.Close(ctx) }()
	enqueue := func(body string) {
		existing, err := outbox.Enqueue(ctx, st, onefold.Key{Scope: "signup", ID: "anna"}, 0, func(fx *onefold.Effects) error {
			fx.Publish("mail.welcome", []byte(body))
			return nil
		})
		fmt.Println("existing:", existing, "- mismatch:", errors.Is(err, onefold.ErrMismatch))
	}
	enqueue("hello")
	enqueue("hello") // the caller was not sure and asks again
	enqueue("goodbye")
	// Output:
	// existing: false - mismatch: false
	// existing: true - mismatch: false
	// existing: false - mismatch: true
}

// exampleServer starts a server with one stream for the examples.
func exampleServer(ctx context.Context) (js jetstream.JetStream, stop func(), err error) {
	dir, err := os.MkdirTemp("", "outbox")
	if err != nil {
		return nil, nil, err
	}
	srv, err := natstest.StartAt(dir, natstest.Options{})
	if err != nil {
		return nil, nil, err
	}
	nc, js, err := srv.Dial()
	if err == nil {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "MAIL", Subjects: []string{"mail.>"}})
	}
	return js, func() {
		nc.Close()
		srv.Stop()
		_ = os.RemoveAll(dir)
	}, err
}
