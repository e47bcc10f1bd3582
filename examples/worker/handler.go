package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/onefold-go/onefold"
)

// Order is what arrives.
type Order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

// Invoice is what a handled order asks for.
type Invoice struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

var errNoID = errors.New("the order has no ID")

// invoice asks for one invoice an order. What no retry can mend becomes a dead letter at once; any other error would
// bring the order again after a growing delay.
func invoice(_ context.Context, o Order, fx *onefold.Effects) error {
	if o.ID == "" {
		return onefold.Permanent(errNoID)
	}
	if o.Cents <= 0 {
		return onefold.Permanent(fmt.Errorf("order %s is over %d cents; it must be more than 0", o.ID, o.Cents))
	}
	fx.Publish("invoices.create", Invoice{Order: o.ID, Cents: o.Cents})
	return nil
}
