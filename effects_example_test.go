package onefold_test

import (
	"context"
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/memstore"
)

// A reminder that leaves in three days, unless the order is paid before. What handlers of a consumer do with fx is done
// here with outbox.Enqueue, so that the example needs no server.
func ExampleEffects_Emit_timer() {
	ctx := context.Background()
	st := memstore.New()
	defer func() { _ = st.Close(ctx) }()
	reminder := func(order string) string { return "reminder/" + order } // one name for each order

	placed := func(order string, at time.Time) func(*onefold.Effects) error {
		return func(fx *onefold.Effects) error {
			fx.Publish("orders.confirmed", order)
			fx.Emit(onefold.Effect{
				Target: "mail.reminder", Payload: []byte(order), Timer: reminder(order), NotBefore: at.Add(72 * time.Hour),
			})
			return nil
		}
	}
	deferred := func(order string, until time.Time) func(*onefold.Effects) error {
		return func(fx *onefold.Effects) error { // takes the place of the reminder that waits
			fx.Emit(onefold.Effect{Target: "mail.reminder", Payload: []byte(order), Timer: reminder(order), NotBefore: until})
			return nil
		}
	}
	paid := func(order string) func(*onefold.Effects) error {
		return func(fx *onefold.Effects) error {
			fx.Emit(onefold.Effect{Timer: reminder(order), Cancel: true})
			return nil
		}
	}

	day := time.Date(2030, 5, 1, 0, 0, 0, 0, time.UTC)
	for _, message := range []struct {
		id     string
		handle func(*onefold.Effects) error
	}{
		{"order-7 placed", placed("order-7", day)},
		{"order-8 placed", placed("order-8", day)},
		{"order-8 deferred", deferred("order-8", day.AddDate(0, 1, 0))},
		{"order-7 paid", paid("order-7")},
	} {
		if _, err := outbox.Enqueue(ctx, st, onefold.Key{Scope: "ORDERS/reminders", ID: message.id}, 0, message.handle); err != nil {
			fmt.Println(err)
			return
		}
	}
	for item, err := range st.Scan(ctx, onefold.Query{What: onefold.WhatWaiting}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if e := item.Row.Effect; e.Timer != "" {
			fmt.Println(e.Target, string(e.Payload), "on", e.NotBefore.UTC().Format(time.DateOnly))
		}
	}
	// Output:
	// mail.reminder order-8 on 2030-06-01
}
