package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/memstore"
)

// runWith runs a consumer and its relay until one message has been answered.
func runWith(js jetstream.JetStream, st onefold.Store, handler onefold.Handler) {
	ctx, cancel := context.WithCancel(context.Background())
	work, err := consumer.New(js, st, consumer.Config{
		Stream: "ORDERS", Name: "billing", Handler: handler,
		Observer: &onefold.Observer{Acked: func(onefold.DeliveryEvent) { cancel() }},
	})
	if err != nil {
		log.Fatal(err)
	}
	relay, err := outbox.NewRelay(st, outbox.Config{JetStream: js})
	if err != nil {
		log.Fatal(err)
	}
	if err := onefold.Run(ctx, work, relay); err != nil {
		log.Fatal(err)
	}
}

// A handler gives up, is mended, and the message is redriven.
func ExampleNewDeadLetters() {
	withServer(func(js jetstream.JetStream) {
		ctx, st := context.Background(), memstore.New()
		publishOrder(js, "order-1", "12 EUR")
		runWith(js, st, func(context.Context, *onefold.Message, *onefold.Effects) error {
			return onefold.Permanent(errors.New("no such account"))
		})

		letters, err := consumer.NewDeadLetters(js, consumer.DeadLettersConfig{})
		if err != nil {
			log.Fatal(err)
		}
		selection, err := letters.Select(ctx, consumer.LetterFilter{Consumer: "billing", Reason: "no such account"})
		if err != nil {
			log.Fatal(err)
		}
		for letter, err := range selection.Letters(ctx) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(letter.Key.ID, "-", letter.Class, "-", letter.Reason)
		}
		for done, err := range selection.Redrive(ctx, consumer.RedriveOptions{PerSecond: 100}) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("redriven as generation", done.Key.Gen)
		}

		runWith(js, st, func(_ context.Context, m *onefold.Message, fx *onefold.Effects) error {
			fmt.Println("bill", fx.Key().ID, string(m.Data))
			return nil
		})
	})
	// Output:
	// order-1 - permanent - no such account
	// redriven as generation 1
	// bill order-1 12 EUR
}
