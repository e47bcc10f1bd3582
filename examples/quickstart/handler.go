package main

import (
	"context"
	"errors"

	"github.com/onefold-go/onefold"
)

// Order is what arrives, and Charge what a handled order asks for.
type Order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

// Charge asks the payment service for money.
type Charge struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

var errNoOrderID = errors.New("order has no ID")

// handle asks for one charge an order. It may run several times; the charge leaves once.
func handle(_ context.Context, o Order, fx *onefold.Effects) error {
	if o.ID == "" {
		return onefold.Permanent(errNoOrderID)
	}
	fx.Publish("charges.create", Charge{Order: o.ID, Cents: o.Cents})
	return nil
}
