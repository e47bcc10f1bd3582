package main

import (
	"testing"

	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/onefoldtest"
)

func TestBilling(t *testing.T) {
	kit := onefoldtest.New(t, consumer.Config{Handler: consumer.JSON(handle)})
	order := kit.Message("orders.new", "order-7", Order{ID: "order-7", Cents: 500})
	kit.Survives(order)
	kit.Published("charges.create", Charge{Order: "order-7", Cents: 500})
}

func TestAnOrderWithoutAnIDIsGivenUp(t *testing.T) {
	kit := onefoldtest.New(t, consumer.Config{Handler: consumer.JSON(handle)})
	order := kit.Message("orders.new", "order-7", Order{Cents: 500})
	kit.Survives(order)
	kit.DeadLetter(order, errNoOrderID.Error())
}
