package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
)

// Order is what a client posts.
type Order struct {
	Item  string `json:"item"`
	Count int    `json:"count"`
}

// orders is the bucket of this program, in the same file as the outbox.
var orders = []byte("orders")

// maxBody is more than an order takes.
const maxBody = 4 << 10

// place writes an order into the bucket and asks for the message about it. Both become durable in one transaction of
// bbolt, once for each ID, or neither does; a relay sends the message, also if this process dies right after.
func place(ctx context.Context, st *boltstore.Store, id string, o Order) (existing bool, err error) {
	key := onefold.Key{Scope: "http/orders", ID: id}
	return outbox.Enqueue(ctx, st, key, 0, func(fx *onefold.Effects) error {
		fx.Publish("orders.placed", o)
		value, err := json.Marshal(o)
		if err != nil {
			return err
		}
		return boltstore.Tx(fx, func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(orders)
			if err != nil {
				return err
			}
			return b.Put([]byte(id), value)
		})
	})
}

// postOrder takes an order under the ID that the client gives it and that a repeat keeps.
func postOrder(st *boltstore.Store) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Idempotency-Key")
		var o Order
		switch err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&o); {
		case id == "":
			http.Error(w, "give the order an Idempotency-Key, and repeat it if no answer comes", http.StatusBadRequest)
			return
		case err != nil || o.Item == "" || o.Count <= 0:
			http.Error(w, `give an order such as {"item":"tea","count":1}`, http.StatusBadRequest)
			return
		}
		existing, err := place(r.Context(), st, id, o)
		w.WriteHeader(status(existing, err))
	}
}

// status is the answer to what Enqueue has said.
func status(existing bool, err error) int {
	switch {
	case errors.Is(err, onefold.ErrMismatch):
		return http.StatusUnprocessableEntity // the ID was used for another order
	case err != nil:
		return http.StatusServiceUnavailable // ask again with the same ID
	case existing:
		return http.StatusOK // taken before
	}
	return http.StatusCreated
}
