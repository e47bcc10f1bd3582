package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/memstore"
)

// run does the work of one order once: it asks for the key, and commits the mark together with a message.
func run(ctx context.Context, s onefold.Store, attempt uint64) error {
	k := onefold.Key{Scope: "ORDERS/billing", ID: "order-1"}
	g, err := s.Begin(ctx, onefold.Request{
		Key: k, Lease: 30 * time.Second, Holder: onefold.Holder{Process: 1, Attempt: attempt},
	})
	if err != nil || g.Verdict != onefold.Granted {
		fmt.Println(g.Verdict)
		return err
	}
	one := &onefold.Commit{Claim: g.Claim, Entry: onefold.Entry{
		Key: k, Outcome: onefold.Succeeded, Retain: time.Hour,
		Effects: []onefold.Effect{{ID: k.EffectID(0), Kind: onefold.KindMessage, Target: "charges", Payload: []byte("12 EUR")}},
	}}
	if err := s.Commit(ctx, []*onefold.Commit{one}); err != nil {
		return err
	}
	fmt.Println("committed")
	return one.Err
}

func Example() {
	ctx := context.Background()
	s := memstore.New()
	for attempt := range uint64(2) {
		if err := run(ctx, s, attempt); err != nil {
			fmt.Println(err)
		}
	}
	feed, err := s.Feed(ctx, time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	rows, err := feed.Next(ctx, 10)
	for _, r := range rows {
		fmt.Printf("%s: %s\n", r.Effect.Target, r.Effect.Payload)
	}
	fmt.Println(err, s.Close(ctx))
	// Output:
	// committed
	// done
	// charges: 12 EUR
	// <nil> <nil>
}

func ExampleNew() {
	s := memstore.New()
	fmt.Println(s.Info().Kind, s.Info().Clean)
	fmt.Println(s.Close(context.Background()))
	// Output:
	// memory true
	// <nil>
}

// What was committed before a crash is there after it.
func ExampleOpen() {
	ctx := context.Background()
	data := memstore.NewData(onefold.Clock{})
	for attempt := range uint64(2) {
		s, err := memstore.Open(data, &memstore.Options{MaxRecords: 1000})
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := run(ctx, s, attempt); err != nil {
			fmt.Println(err)
		}
		data.Crash()
	}
	// Output:
	// committed
	// done
}
