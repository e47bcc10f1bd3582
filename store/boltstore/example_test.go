package boltstore_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

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

// orders is the bucket of the program itself.
var orders = []byte("orders")

// handler takes orders under the ID that the client gives them. The order stands in a bucket of the program, and
// the message about it among the store's effects: both become durable in one step, once.
func handler(st *boltstore.Store) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, item := onefold.Key{Scope: "http/orders", ID: r.Header.Get("Idempotency-Key")}, r.FormValue("item")
		fx := onefold.NewEffects(onefold.RunInfo{Key: key, StoreKind: boltstore.Kind}, st)
		fx.Publish("orders.placed", []byte(item))
		err := boltstore.Tx(fx, func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(orders)
			if err != nil {
				return err
			}
			return b.Put([]byte(key.ID), []byte(item))
		})
		if err == nil {
			err = store(r.Context(), st, fx)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// store commits what a run has asked for.
func store(ctx context.Context, st onefold.Store, fx *onefold.Effects) error {
	entry, err := fx.Seal()
	if err != nil {
		return err
	}
	entry.Outcome, entry.Retain = onefold.Succeeded, 24*time.Hour
	c := &onefold.Commit{Entry: entry}
	if err := st.Commit(ctx, []*onefold.Commit{c}); err != nil {
		return err
	}
	return c.Err
}

func ExampleTx() {
	dir, err := os.MkdirTemp("", "onefold")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	st, err := boltstore.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = st.Close(ctx) }()

	for range 2 { // the client asks again, since it has seen no answer
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/orders", strings.NewReader("item=tea"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Idempotency-Key", "order-1")
		w := httptest.NewRecorder()
		handler(st)(w, r)
		fmt.Println(w.Code)
	}
	stats, err := st.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("messages to send:", stats.Waiting)
	// Output:
	// 204
	// 204
	// messages to send: 1
}

func ExampleStore_View() {
	dir, err := os.MkdirTemp("", "onefold")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	st, err := boltstore.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = st.Close(ctx) }()

	fx := onefold.NewEffects(onefold.RunInfo{Key: onefold.Key{Scope: "demo", ID: "1"}, StoreKind: boltstore.Kind}, st)
	err = boltstore.Tx(fx, func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(orders)
		if err != nil {
			return err
		}
		return b.Put([]byte("order-1"), []byte("tea"))
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := store(ctx, st, fx); err != nil {
		log.Fatal(err)
	}

	var item string
	err = st.View(ctx, func(tx *bolt.Tx) error {
		if b := tx.Bucket(orders); b != nil {
			item = string(b.Get([]byte("order-1"))) // a copy: values end with the transaction
		}
		return nil
	})
	fmt.Println(item, err)
	// Output: tea <nil>
}
