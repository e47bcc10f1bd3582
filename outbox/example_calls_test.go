package outbox_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/memstore"
)

// A function is registered with the relay and asked for by its name. Its key is the same in each call.
func ExampleFunction() {
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

	seen := ""
	relay, err := outbox.NewRelay(st, outbox.Config{
		JetStream: js,
		Functions: map[string]outbox.Function{"charge-card": {Do: func(_ context.Context, c outbox.Call) error {
			fmt.Printf("attempt %d: charge %s, same key: %t\n", c.Attempt, c.Payload, seen == "" || seen == c.Key)
			seen = c.Key
			if c.Attempt == 1 {
				return errors.New("the bank is busy")
			}
			return nil
		}}},
		Observer: &onefold.Observer{Settled: func(onefold.RowEvent) { cancel() }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = outbox.Enqueue(ctx, st, onefold.Key{Scope: "shop", ID: "order-7"}, 0, func(fx *onefold.Effects) error {
		fx.Call("charge-card", map[string]int{"cents": 500})
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stopped:", relay.Run(ctx))
	// Output:
	// attempt 1: charge {"cents":500}, same key: true
	// attempt 2: charge {"cents":500}, same key: true
	// stopped: <nil>
}

// A person looks at what is parked, and lets it go again when its cause is mended.
func ExampleResume() {
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
	_, err = outbox.Enqueue(ctx, st, onefold.Key{Scope: "shop", ID: "order-7"}, 0, func(fx *onefold.Effects) error {
		fx.Call("new-function", nil)
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	old, err := outbox.NewRelay(st, outbox.Config{JetStream: js, Observer: &onefold.Observer{RowParked: func(onefold.RowEvent) { cancel() }}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stopped:", old.Run(ctx))

	ctx = context.Background()
	for item, err := range outbox.Parked(ctx, st, outbox.Choice{Kind: onefold.KindCall}) {
		fmt.Println(item.Row.Key, item.Row.Effect.Target, err)
	}
	n, err := outbox.Resume(ctx, st, outbox.Choice{Target: "new-function"}, "released today", nil)
	fmt.Println("resumed:", n, err)
	n, err = outbox.Discard(ctx, st, outbox.Choice{Target: "new-function"}, "not needed", nil)
	fmt.Println("discarded:", n, err) // it is not parked any more
	// Output:
	// stopped: <nil>
	// shop/order-7 new-function <nil>
	// resumed: 1 <nil>
	// discarded: 0 <nil>
}
