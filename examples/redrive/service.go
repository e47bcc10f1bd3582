package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
)

const (
	durable         = "bank"
	paymentsStream  = "PAYMENTS"
	transfersStream = "TRANSFERS"
	paymentCount    = 100
	swissEvery      = 5 // one payment in so many is in Swiss francs
)

// Payment is what arrives, and Transfer what a handled payment asks for.
type Payment struct {
	ID       string `json:"id"`
	Cents    int    `json:"cents"`
	Currency string `json:"currency"`
}

// Transfer moves money, in euro cents.
type Transfer struct {
	Payment string `json:"payment"`
	Cents   int    `json:"cents"`
}

// service handles payments.
type service struct {
	js    jetstream.JetStream
	dir   string
	rates map[string]int // euro cents for a unit of each currency

	runs, redriven atomic.Int64
}

// handle asks for one transfer a payment.
func (s *service) handle(_ context.Context, p Payment, fx *onefold.Effects) error {
	s.runs.Add(1)
	if fx.Key().Gen > 0 {
		s.redriven.Add(1)
	}
	rate, known := s.rates[p.Currency]
	if !known {
		return onefold.Permanent(fmt.Errorf("unknown currency %q", p.Currency))
	}
	fx.Publish("transfers.create", Transfer{Payment: p.ID, Cents: p.Cents * rate / 100})
	return nil
}

// runUntilIdle serves until so many messages in all are acked, and what each has asked for has been sent: a
// transfer, or a dead letter.
func (s *service) runUntilIdle(ctx context.Context, total int) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := boltstore.Open(s.dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()
	answered, err := s.acked(ctx)
	if err != nil {
		return err
	}
	var left atomic.Int64
	left.Store(2 * int64(total-answered))
	countdown := func() {
		if left.Add(-1) == 0 {
			cancel()
		}
	}
	observer := &onefold.Observer{
		Acked:   func(onefold.DeliveryEvent) { countdown() },
		Settled: func(onefold.RowEvent) { countdown() },
	}
	work, err := consumer.New(s.js, st, consumer.Config{Stream: paymentsStream, Name: durable, Handler: consumer.JSON(s.handle), Observer: observer})
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(st, outbox.Config{JetStream: s.js, Observer: observer})
	if err != nil {
		return err
	}
	return onefold.Run(ctx, work, relay)
}

// acked is how much of the stream the durable has behind it.
func (s *service) acked(ctx context.Context) (int, error) {
	c, err := s.js.Consumer(ctx, paymentsStream, durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return int(c.CachedInfo().AckFloor.Stream), nil
}

// publishPayments makes the streams and publishes the payments.
func publishPayments(ctx context.Context, js jetstream.JetStream) error {
	for name, subject := range map[string]string{paymentsStream: "payments", transfersStream: "transfers.>"} {
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{subject}}); err != nil {
			return fmt.Errorf("create stream %s: %w", name, err)
		}
	}
	for i := range paymentCount {
		p := Payment{ID: fmt.Sprintf("payment-%03d", i), Cents: 1000 + i, Currency: "EUR"}
		if i%swissEvery == 0 {
			p.Currency = "CHF"
		}
		body, err := json.Marshal(p)
		if err != nil {
			return err
		}
		m := &nats.Msg{Subject: "payments", Data: body, Header: nats.Header{jetstream.MsgIDHeader: {p.ID}}}
		if _, err := js.PublishMsg(ctx, m); err != nil {
			return fmt.Errorf("publish payment: %w", err)
		}
	}
	return nil
}

// audit counts the transfers.
func audit(ctx context.Context, js jetstream.JetStream, s *service) error {
	stream, err := js.Stream(ctx, transfersStream)
	if err != nil {
		return err
	}
	transfers := map[string]int{}
	for sequence := uint64(1); sequence <= stream.CachedInfo().State.LastSeq; sequence++ {
		m, err := stream.GetMsg(ctx, sequence)
		if err != nil {
			return fmt.Errorf("read transfer %d: %w", sequence, err)
		}
		var t Transfer
		if err := json.Unmarshal(m.Data, &t); err != nil {
			return fmt.Errorf("decode transfer %d: %w", sequence, err)
		}
		transfers[t.Payment]++
	}
	double := 0
	for _, n := range transfers {
		double += n - 1
	}
	lost := paymentCount - len(transfers)
	fmt.Printf("%d payments, %d given up, %d redriven, %d runs, %d lost, %d double\n",
		paymentCount, paymentCount/swissEvery, s.redriven.Load(), s.runs.Load(), lost, double)
	if lost != 0 || double != 0 {
		return errors.New("the ledger does not balance")
	}
	return nil
}
