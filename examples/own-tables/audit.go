package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// ledger is what the messages of the warehouse say.
type ledger struct {
	reserved, refused int
	pieces            map[string]int // reserved, by item and by customer
}

// audit compares the messages with both tables.
func audit(ctx context.Context, js jetstream.JetStream, w *warehouse) error {
	l, err := read(ctx, js)
	if err != nil {
		return err
	}
	fmt.Printf("%d orders, each published %d times: %d runs, of which %d repeated what was decided on stale numbers\n",
		orderCount, copies, w.runs.Load(), w.runs.Load()-orderCount)
	var wrong []error
	if l.reserved+l.refused != orderCount {
		wrong = append(wrong, fmt.Errorf("%d orders have %d answers", orderCount, l.reserved+l.refused))
	}
	for n := range itemCount {
		left, err := w.left(ctx, item(n))
		if err != nil {
			return err
		}
		if left < 0 || left+l.pieces[item(n)] != firstStock {
			wrong = append(wrong, fmt.Errorf("%s: %d of %d pieces are left and %d reserved", item(n), left, firstStock, l.pieces[item(n)]))
		}
	}
	for n := range customerCount {
		v, err := w.st.Read(ctx, "totals", customer(n))
		if err != nil {
			return err
		}
		if string(v.Data) != strconv.Itoa(l.pieces[customer(n)]) {
			wrong = append(wrong, fmt.Errorf("the total of %s is %s and not %d", customer(n), v.Data, l.pieces[customer(n)]))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	fmt.Printf("%d orders, %d reserved, %d refused, stock and totals add up\n", orderCount, l.reserved, l.refused)
	return nil
}

// read goes through the messages of the warehouse.
func read(ctx context.Context, js jetstream.JetStream) (ledger, error) {
	l := ledger{pieces: map[string]int{}}
	s, err := js.Stream(ctx, "WAREHOUSE")
	if err != nil {
		return l, err
	}
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(ctx, seq)
		if err != nil {
			return l, fmt.Errorf("read message %d: %w", seq, err)
		}
		var o Order
		if err := json.Unmarshal(m.Data, &o); err != nil {
			return l, fmt.Errorf("decode message %d: %w", seq, err)
		}
		if m.Subject == "warehouse.refused" {
			l.refused++
			continue
		}
		l.reserved++
		l.pieces[o.Item] += o.Count
		l.pieces[o.Customer] += o.Count
	}
	return l, nil
}
