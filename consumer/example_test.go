package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

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
