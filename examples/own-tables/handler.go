package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
)

// Order wants some pieces of an item.
type Order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Item     string `json:"item"`
	Count    int    `json:"count"`
}

// stock is a bucket of this program: item, and how many are left.
var stock = []byte("stock")

// warehouse reserves stock for orders.
type warehouse struct {
	st   *boltstore.Store
	runs atomic.Int64
}

// reserve decides by two tables. The customer's total is state of the framework: Get remembers the version that it has
// read. The stock is a bucket of this program: what was read by View is compared by Tx in the commit. If either has
// moved, the commit is refused and reserve runs again, so that it never decides on what is not true any more.
func (w *warehouse) reserve(ctx context.Context, o Order, fx *onefold.Effects) error {
	w.runs.Add(1)
	if o.Count <= 0 {
		return onefold.Permanent(fmt.Errorf("order %s wants %d pieces", o.ID, o.Count))
	}
	left, err := w.left(ctx, o.Item)
	if err != nil {
		return err
	}
	if left < o.Count {
		fx.Publish("warehouse.refused", o)
		return w.change(fx, o.Item, left, left) // refused only if it is still true
	}
	if err := addTo(ctx, fx, o.Customer, o.Count); err != nil {
		return err
	}
	fx.Publish("warehouse.reserved", o)
	return w.change(fx, o.Item, left, left-o.Count)
}

// addTo adds to a customer's total.
func addTo(ctx context.Context, fx *onefold.Effects, customer string, count int) error {
	data, ok, err := fx.Get(ctx, "totals", customer)
	if err != nil {
		return err
	}
	total := 0
	if ok {
		if total, err = strconv.Atoi(string(data)); err != nil {
			return onefold.Permanent(fmt.Errorf("total of %s: %w", customer, err))
		}
	}
	fx.Put("totals", customer, []byte(strconv.Itoa(total+count)))
	return nil
}

// left reads how many pieces of an item there are.
func (w *warehouse) left(ctx context.Context, item string) (n int, err error) {
	err = w.st.View(ctx, func(tx *bolt.Tx) error {
		n = pieces(tx.Bucket(stock), item)
		return nil
	})
	return n, err
}

// change makes it part of the commit that there are now pieces of item instead of was.
func (w *warehouse) change(fx *onefold.Effects, item string, was, now int) error {
	return boltstore.Tx(fx, func(tx *bolt.Tx) error {
		b := tx.Bucket(stock)
		if n := pieces(b, item); n != was {
			return fmt.Errorf("%w: %d of %s, not %d", onefold.ErrConflict, n, item, was)
		}
		if was == now {
			return nil
		}
		return b.Put([]byte(item), binary.BigEndian.AppendUint64(nil, uint64(now)))
	})
}

// pieces is what a bucket says of an item; without a bucket there is none of it.
func pieces(b *bolt.Bucket, item string) int {
	if b == nil {
		return 0
	}
	if v := b.Get([]byte(item)); len(v) == 8 {
		return int(binary.BigEndian.Uint64(v))
	}
	return 0
}

// fill puts the stock there, once however often the program is started.
func fill(ctx context.Context, st *boltstore.Store) error {
	_, err := outbox.Enqueue(ctx, st, onefold.Key{Scope: "warehouse", ID: "first stock"}, 0, func(fx *onefold.Effects) error {
		return boltstore.Tx(fx, func(tx *bolt.Tx) error {
			if tx.Bucket(stock) != nil {
				return nil // from an earlier start, which Enqueue remembers for a day only
			}
			b, err := tx.CreateBucket(stock)
			for n := 0; n < itemCount && err == nil; n++ {
				err = b.Put([]byte(item(n)), binary.BigEndian.AppendUint64(nil, firstStock))
			}
			return err
		})
	})
	return err
}
