package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/internal/natstest"
	"github.com/onefold-go/onefold/store/memstore"
)

// withServer runs f with a server that has one stream ORDERS on "orders".
func withServer(f func(js jetstream.JetStream)) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	srv, err := natstest.StartAt(dir, natstest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Stop()
	nc, js, err := srv.Dial()
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	if _, err := js.CreateStream(context.Background(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}}); err != nil {
		log.Fatal(err)
	}
	f(js)
}

// publishOrder stores a message with an ID of its own.
func publishOrder(js jetstream.JetStream, id, body string) {
	m := &nats.Msg{Subject: "orders", Data: []byte(body), Header: nats.Header{onefold.HeaderID: {id}}}
	if _, err := js.PublishMsg(context.Background(), m); err != nil {
		log.Fatal(err)
	}
}

// runUntil runs c until n messages have been answered.
func runUntil(js jetstream.JetStream, c consumer.Config, n int) {
	answered := make(chan struct{}, n)
	told := func(onefold.DeliveryEvent) { answered <- struct{}{} }
	c.Observer = &onefold.Observer{Acked: told, Duplicate: told, DeadLettered: told}
	work, err := consumer.New(js, memstore.New(), c)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- work.Run(ctx) }()
	for range n {
		<-answered
	}
	cancel()
	if err := <-done; err != nil {
		log.Fatal(err)
	}
}

// A message that arrives three times takes effect once.
func ExampleNew() {
	withServer(func(js jetstream.JetStream) {
		for range 3 {
			publishOrder(js, "order-1", "12 EUR")
		}
		answered := make(chan struct{}, 3)
		told := func(onefold.DeliveryEvent) { answered <- struct{}{} }
		work, err := consumer.New(js, memstore.New(), consumer.Config{
			Stream: "ORDERS", Name: "billing",
			Handler: func(_ context.Context, m *onefold.Message, fx *onefold.Effects) error {
				fmt.Println("bill", fx.Key().ID, string(m.Data))
				return nil
			},
			Observer: &onefold.Observer{Acked: told, Duplicate: told},
		})
		if err != nil {
			log.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- work.Run(ctx) }()
		for range 3 {
			<-answered
		}
		cancel()
		fmt.Println("ended:", <-done)
	})
	// Output:
	// bill order-1 12 EUR
	// ended: <nil>
}

func ExampleJSON() {
	type order struct{ Euros int }
	withServer(func(js jetstream.JetStream) {
		publishOrder(js, "order-1", `{"Euros": 12}`)
		publishOrder(js, "order-2", `{"Euros": "twelve"}`) // becomes a dead letter
		runUntil(js, consumer.Config{
			Stream: "ORDERS", Name: "billing",
			Handler: consumer.JSON(func(_ context.Context, o order, _ *onefold.Effects) error {
				if o.Euros <= 0 {
					return onefold.Permanent(errors.New("nothing to bill"))
				}
				fmt.Println("bill", o.Euros)
				return nil
			}),
		}, 2)
	})
	// Output: bill 12
}

func ExampleRaw() {
	withServer(func(js jetstream.JetStream) {
		publishOrder(js, "order-1", "12 EUR")
		runUntil(js, consumer.Config{
			Stream: "ORDERS", Name: "billing",
			Handler: consumer.Raw(func(_ context.Context, body []byte, _ *onefold.Effects) error {
				fmt.Printf("%d bytes\n", len(body))
				return nil
			}),
		}, 1)
	})
	// Output: 6 bytes
}

func ExampleRequest() {
	withServer(func(js jetstream.JetStream) {
		work, err := consumer.New(js, memstore.New(), consumer.Config{
			Stream: "ORDERS", Name: "prices",
			Handler: consumer.Raw(func(_ context.Context, order []byte, fx *onefold.Effects) error {
				fx.Result("price of " + string(order))
				return nil
			}),
		})
		if err != nil {
			log.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- work.Run(ctx) }()
		for range 2 { // the second time from the store
			reply, err := consumer.Request(ctx, js, "order-1", &nats.Msg{Subject: "orders", Data: []byte("tea")})
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(string(reply.Result))
		}
		cancel()
		fmt.Println(<-done)
	})
	// Output:
	// "price of tea"
	// "price of tea"
	// <nil>
}

// One consumer for all that happens to orders, a handler for each subject.
func ExampleRouteBySubject() {
	says := func(name string) onefold.Handler {
		return func(_ context.Context, m *onefold.Message, _ *onefold.Effects) error {
			fmt.Println(name, m.Subject)
			return nil
		}
	}
	route, err := consumer.RouteBySubject(map[string]onefold.Handler{
		"orders.new": says("bill"),
		"orders.*":   says("note"), // every other
	}, nil) // nil: a dead letter
	if err != nil {
		log.Fatal(err)
	}
	for _, subject := range []string{"orders.new", "orders.sent", "bills.new"} {
		if err := route(context.Background(), &onefold.Message{Subject: subject}, nil); err != nil {
			fmt.Println(err, "- permanent:", onefold.IsPermanent(err))
		}
	}
	_, err = consumer.RouteBySubject(map[string]onefold.Handler{"orders.*": says("a"), "*.new": says("b")}, nil)
	fmt.Println(err)
	// Output:
	// bill orders.new
	// note orders.sent
	// no route for the subject "bills.new" - permanent: true
	// onefold: invalid argument: route by subject: "*.new" and "orders.*" both match "orders.new"; add a route for that, to say which decides
}

// One subject for events of several types; those of others are skipped.
func ExampleRouteByHeader() {
	type order struct{ Euros int }
	withServer(func(js jetstream.JetStream) {
		m := &nats.Msg{Subject: "orders", Data: []byte(`{"Euros": 12}`), Header: nats.Header{onefold.HeaderID: {"order-1"}, "Type": {"order.created"}}}
		if _, err := js.PublishMsg(context.Background(), m); err != nil {
			log.Fatal(err)
		}
		publishOrder(js, "order-2", "of no type")
		route, err := consumer.RouteByHeader("Type", map[string]onefold.Handler{
			"order.created": consumer.JSON(func(_ context.Context, o order, _ *onefold.Effects) error {
				fmt.Println("bill", o.Euros)
				return nil
			}),
		}, consumer.Ignore)
		if err != nil {
			log.Fatal(err)
		}
		runUntil(js, consumer.Config{Stream: "ORDERS", Name: "billing", Handler: route}, 2)
	})
	// Output: bill 12
}

// Each run has ten milliseconds, and the message is given up after the second of them.
func ExampleChain() {
	timeout, err := consumer.Timeout(10 * time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	giveUp, err := consumer.GiveUpAfter(2)
	if err != nil {
		log.Fatal(err)
	}
	hangs := func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		fmt.Println("attempt", fx.Attempt())
		<-ctx.Done()
		return ctx.Err()
	}
	handler, err := consumer.Chain(hangs, giveUp, timeout)
	if err != nil {
		log.Fatal(err)
	}
	withServer(func(js jetstream.JetStream) {
		publishOrder(js, "order-1", "12 EUR")
		runUntil(js, consumer.Config{Stream: "ORDERS", Name: "billing", Handler: handler, RetryMin: time.Millisecond}, 1)
	})
	// Output:
	// attempt 1
	// attempt 2
}

// Several orders go into one statement of a database; each has an outcome of its own.
func ExampleBatch() {
	type order struct{ ID string }
	withServer(func(js jetstream.JetStream) {
		for _, id := range []string{"1", "2", "3"} {
			publishOrder(js, "order-"+id, `{"ID":"`+id+`"}`)
		}
		runUntil(js, consumer.Config{Stream: "ORDERS", Name: "billing", Batch: &consumer.Batch{
			Size: 3, Wait: time.Second,
			Handler: consumer.JSONBatch(func(_ context.Context, batch []consumer.Decoded[order]) error {
				fmt.Println("one statement for", len(batch), "orders")
				for _, o := range batch {
					if o.Value.ID == "2" {
						o.Err = onefold.Permanent(errors.New("no such customer"))
						continue
					}
					o.Effects.Result([]byte("billed"))
				}
				return nil
			}),
		}}, 3)
	})
	// Output: one statement for 3 orders
}
