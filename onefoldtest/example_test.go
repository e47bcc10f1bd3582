package onefoldtest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/onefoldtest"
)

// recorder stands in for the *testing.T that a test would pass on, and prints what the kit says to it.
type recorder struct {
	testing.TB
	failures int
	cleanups []func()
}

func (r *recorder) Helper()           {}
func (r *recorder) Cleanup(do func()) { r.cleanups = append(r.cleanups, do) }

func (r *recorder) Errorf(format string, args ...any) {
	r.failures++
	fmt.Printf(format+"\n", args...)
}

func (r *recorder) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// end is what the end of a test does.
func (r *recorder) end() {
	for _, do := range r.cleanups {
		do()
	}
	fmt.Println("failures:", r.failures)
}

type Order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

type Charge struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// bill is the handler under test.
func bill(_ context.Context, o Order, fx *onefold.Effects) error {
	fx.Publish("charges.create", Charge{Order: o.ID, Cents: o.Cents})
	return nil
}

// The whole test of a handler that asks for its effects through fx.
func ExampleNew() {
	t := &recorder{}
	defer t.end()

	kit := onefoldtest.New(t, consumer.Config{Handler: consumer.JSON(bill)})
	order := kit.Message("orders.new", "order-7", Order{ID: "order-7", Cents: 500})
	kit.Survives(order)
	kit.Published("charges.create", Charge{Order: "order-7", Cents: 500})
	// Output:
	// failures: 0
}

// A handler that charges directly, instead of through fx, is caught: it runs again after a crash, and charges again.
func ExampleNewProbe() {
	t := &recorder{}
	defer t.end()

	charge := onefoldtest.NewProbe("charge")
	gateway := func(_ Charge, idempotencyKey string) { charge.Called(idempotencyKey) } // the stand-in of this test
	billDirectly := func(_ context.Context, o Order, _ *onefold.Effects) error {
		gateway(Charge{Order: o.ID, Cents: o.Cents}, "")
		return nil
	}
	kit := onefoldtest.New(t, consumer.Config{Handler: consumer.JSON(billDirectly)}, charge)
	kit.Survives(kit.Message("orders.new", "order-7", Order{ID: "order-7", Cents: 500}))
	// Output:
	// crash at [handled]: the handler ran 2 times for TEST/handler/order-7 and called "charge" 2 times without an idempotency key.
	// What a handler calls directly happens in each run. Pass on fx.IdempotencyKey("charge"), which is
	// "7885c6699c1f0847a527776ef8c68f79" in every run of this key, or ask for the call through fx.
	// failures: 1
}

// With the key passed on, the gateway can tell a repeat from a second charge.
func ExampleProbe_Called() {
	t := &recorder{}
	defer t.end()

	charge := onefoldtest.NewProbe("charge")
	gateway := func(_ Charge, idempotencyKey string) { charge.Called(idempotencyKey) }
	billDirectly := func(_ context.Context, o Order, fx *onefold.Effects) error {
		gateway(Charge{Order: o.ID, Cents: o.Cents}, fx.IdempotencyKey("charge"))
		return nil
	}
	kit := onefoldtest.New(t, consumer.Config{Handler: consumer.JSON(billDirectly)}, charge)
	kit.Survives(kit.Message("orders.new", "order-7", Order{ID: "order-7", Cents: 500}))
	// Output:
	// failures: 0
}

// A handler that makes up an ID asks for something else in each run.
func ExampleKit_Survives() {
	t := &recorder{}
	defer t.end()

	invoice := 0
	handler := func(_ context.Context, o Order, fx *onefold.Effects) error {
		invoice++ // a sequence of the process, where the message should decide
		fx.Publish("invoices.create", map[string]any{"order": o.ID, "invoice": invoice})
		return nil
	}
	kit := onefoldtest.New(t, consumer.Config{Handler: consumer.JSON(handler)})
	kit.Survives(kit.Message("orders.new", "order-7", Order{ID: "order-7", Cents: 500}))
	// Output:
	// crash at [handled]: run 2 of TEST/handler/order-7 asked for something else than run 1:
	//   - effect 0, payload: {"invoice":2,"order":"order-7"}
	//   + effect 0, payload: {"invoice":3,"order":"order-7"}
	// A rerun must ask for the same: take IDs, times and random values from the message, and read state with fx.Get.
	// failures: 1
}

// Messages can be moved through a story by hand.
func ExampleKit_During() {
	t := &recorder{}
	defer t.end()

	kit := onefoldtest.New(t, consumer.Config{Handler: consumer.JSON(bill)})
	order := kit.Message("orders.new", "order-7", Order{ID: "order-7", Cents: 500})
	kit.During(order, func() {
		fmt.Printf("a copy here: %+v\n", kit.Deliver(kit.Copy(order)).Answer)
		fmt.Printf("and elsewhere: again %v\n", kit.Elsewhere(order).Again)
	})
	kit.Succeeded(order)
	kit.Published("charges.create", Charge{Order: "order-7", Cents: 500})
	// Output:
	// a copy here: {Acked:false Again:false Delay:0s}
	// and elsewhere: again true
	// failures: 0
}
