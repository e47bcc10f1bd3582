package storetest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/memstore"
	"github.com/onefold-go/onefold/store/storetest"
)

// A store's own test is a harness and one call. Stores on disk also set Reopen.
func ExampleRun() {
	open := func(t testing.TB, clock onefold.Clock) storetest.Instance {
		s, err := memstore.Open(memstore.NewData(clock), &memstore.Options{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		return storetest.Instance{Store: s}
	}
	test := func(t *testing.T) { storetest.Run(t, storetest.Harness{Open: open}) }
	fmt.Println(test != nil)
	// Output: true
}

func ExampleBench() {
	bench := func(b *testing.B) {
		storetest.Bench(b, func(testing.TB) onefold.Store { return memstore.New() })
	}
	fmt.Println(bench != nil)
	// Output: true
}

func ExampleRules() {
	rule := storetest.Rules()[0]
	fmt.Println(rule.Name)
	fmt.Println(rule.Text)
	// Output:
	// one of fifty callers is granted
	// When many callers ask for one key at once, exactly one is granted and all others are told that it is busy.
}

// A store that is given this clock sees an hour pass at once.
func ExampleNewClock() {
	clock := storetest.NewClock()
	s, err := memstore.Open(memstore.NewData(clock.Clock()), &memstore.Options{Clock: clock.Clock()})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	ask := func(process uint64) {
		g, err := s.Begin(ctx, onefold.Request{
			Key: onefold.Key{Scope: "ORDERS/billing", ID: "order-1"}, Lease: time.Minute, Holder: onefold.Holder{Process: process},
		})
		fmt.Println(g.Verdict, err)
	}
	ask(1)
	ask(2)
	clock.Advance(time.Hour)
	ask(2)
	fmt.Println(s.Close(ctx))
	// Output:
	// granted <nil>
	// busy <nil>
	// granted <nil>
	// <nil>
}
