package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

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

// The function takes what the handler gave. A payload that does not decode calls nobody: it is parked with its reason.
func ExampleJSON() {
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

	type Charge struct {
		Order string
		Cents int
	}
	_, err = outbox.Enqueue(ctx, st, onefold.Key{Scope: "shop", ID: "order-7"}, 0, func(fx *onefold.Effects) error {
		fx.Call("charge-card", Charge{Order: "order-7", Cents: 500})
		fx.Call("send-receipt", "order-7")
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	charge := outbox.JSON(func(_ context.Context, v Charge, c outbox.Call) error {
		fmt.Printf("%s: %d cents for %s\n", c.Name, v.Cents, v.Order)
		return nil
	})
	var left atomic.Int64
	left.Store(2)
	ended := func() {
		if left.Add(-1) == 0 {
			cancel() // the example has seen enough
		}
	}
	relay, err := outbox.NewRelay(st, outbox.Config{
		JetStream: js,
		Functions: map[string]outbox.Function{
			"charge-card":  {Do: charge},
			"send-receipt": {Do: charge}, // by mistake: it is given a string
		},
		Observer: &onefold.Observer{
			Settled:   func(onefold.RowEvent) { ended() },
			RowParked: func(e onefold.RowEvent) { fmt.Println("parked:", e.Err); ended() },
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stopped:", relay.Run(ctx))
	// Unordered output:
	// charge-card: 500 cents for order-7
	// parked: function "send-receipt": decode the payload as outbox_test.Charge, 9 bytes: json: cannot unmarshal string into Go value of type outbox_test.Charge
	// stopped: <nil>
}
