package boltstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "onefold")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	key := onefold.Key{Scope: "ORDERS/billing", ID: "order-1"}

	for range 2 { // the second time is after a restart
		st, err := boltstore.Open(dir, nil)
		if err != nil {
			log.Fatal(err)
		}
		c := &onefold.Commit{Entry: onefold.Entry{Key: key, Outcome: onefold.Succeeded, Result: []byte("charged"), Retain: time.Hour}}
		if err := st.Commit(ctx, []*onefold.Commit{c}); err != nil {
			log.Fatal(err)
		}
		fmt.Println("epoch", st.Info().Epoch, "stored before:", c.Existing != nil)
		if err := st.Close(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// epoch 1 stored before: false
	// epoch 2 stored before: true
}
