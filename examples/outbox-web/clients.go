package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// orderCount is how many orders there are, and askings how often each is asked for.
const (
	orderCount = 100
	askings    = 3
)

// clients ask for orders, each several times at once, and once with a changed mind.
type clients struct {
	url string
	st  *boltstore.Store
}

// Run asks, prints what was answered, and returns when all messages have left.
func (c clients) Run(ctx context.Context) error {
	answers := map[int]int{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	errs := make([]error, askings+1)
	ask := func(round int, change int) {
		for i := range orderCount {
			code, err := c.post(ctx, orderID(i), Order{Item: "tea", Count: i + 1 + change})
			if err != nil {
				errs[round] = err
				return
			}
			mu.Lock()
			answers[code]++
			mu.Unlock()
		}
	}
	for round := range askings {
		asking.Go(func() { ask(round, 0) })
	}
	asking.Wait()
	ask(askings, 1) // the same IDs for other orders
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i := range orderCount {
		if _, err := c.st.Wait(ctx, onefold.Key{Scope: "http/orders", ID: orderID(i)}); err != nil {
			return fmt.Errorf("wait for the message of %s: %w", orderID(i), err)
		}
	}
	fmt.Printf("%d created, %d taken before, %d refused since the ID was used for another order\n",
		answers[http.StatusCreated], answers[http.StatusOK], answers[http.StatusUnprocessableEntity])
	if created, refused := answers[http.StatusCreated], answers[http.StatusUnprocessableEntity]; created != orderCount || refused != orderCount {
		return errors.New("an answer is wrong")
	}
	return nil
}

func orderID(i int) string { return fmt.Sprintf("order-%03d", i) }

// post asks for one order.
func (c clients) post(ctx context.Context, id string, o Order) (code int, err error) {
	body, err := json.Marshal(o)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Idempotency-Key", id)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, errors.Join(err, answer.Body.Close())
}

// audit compares the bucket with the stream.
func audit(ctx context.Context, st *boltstore.Store, placed jetstream.Stream) error {
	stored := 0
	err := st.View(ctx, func(tx *bolt.Tx) error {
		stored = 0
		if b := tx.Bucket(orders); b != nil {
			stored = b.Stats().KeyN
		}
		return nil
	})
	if err != nil {
		return err
	}
	info, err := placed.Info(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%d requests, %d orders stored, %d messages\n", orderCount*(askings+1), stored, info.State.Msgs)
	if stored != orderCount || info.State.Msgs != orderCount {
		return errors.New("orders and messages differ")
	}
	return nil
}
