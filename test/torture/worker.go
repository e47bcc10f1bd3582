package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
)

// The times of workers are short, so that faults outlast them.
const (
	ackWait        = 2 * time.Second
	lease          = 2 * time.Second
	handlerTimeout = time.Second
	maxAttempts    = 6
	serverStart    = 30 * time.Second
)

func subjectOf(part int, account string) string { return fmt.Sprintf("orders.%d.%s", part, account) }
func durableOf(part int) string                 { return fmt.Sprintf("work-%d", part) }

// work is a service as people run it: a consumer, a relay and a store.
func work(ctx context.Context, s spec, clock *offsetClock) error {
	return runPart(ctx, s, clock, func(j *journal) consumer.Config {
		c := consumer.Config{
			Stream: ordersStream, Name: durableOf(s.Part), FilterSubjects: []string{fmt.Sprintf("orders.%d.>", s.Part)},
			Handler: handler{part: s.Part, journal: j}.handle, HandlerTimeout: handlerTimeout, MaxAttempts: maxAttempts,
		}
		if s.Ordered {
			c.OrderBy = func(m *onefold.Message) string { return m.Subject }
		}
		return c
	})
}

// sink consumes what workers send.
func sink(ctx context.Context, s spec, clock *offsetClock) error {
	return runPart(ctx, s, clock, func(*journal) consumer.Config {
		return consumer.Config{Stream: effectsStream, Name: sinkName, Handler: consumer.JSON(apply)}
	})
}

// runPart runs a consumer and a relay on a store until ctx ends.
func runPart(ctx context.Context, s spec, clock *offsetClock, configure func(*journal) consumer.Config) error {
	j, err := openJournal(s)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(s.URL, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true),
		nats.Timeout(time.Second), nats.PingInterval(500*time.Millisecond), nats.MaxPingsOutstanding(3))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	st, err := boltstore.Open(s.Dir, &boltstore.Options{Clock: clock.clock(), SegmentRecords: 20_000})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	cfg := configure(j)
	cfg.AckWait, cfg.Lease, cfg.Retention = ackWait, lease, s.Retention
	cfg.RetryMin, cfg.RetryMax, cfg.ShutdownTimeout, cfg.LostTimeout = 20*time.Millisecond, 500*time.Millisecond, 3*time.Second, time.Hour
	cfg.Observer, cfg.Clock = j.observer(), clock.clock()
	c, err := consumer.New(js, st, cfg)
	if err != nil {
		return err
	}
	r, err := outbox.NewRelay(st, outbox.Config{JetStream: js, Observer: cfg.Observer, Clock: clock.clock(),
		RetryMin: 20 * time.Millisecond, RetryMax: 500 * time.Millisecond, Lease: 3 * time.Second, PublishTimeout: 2 * time.Second, MaxAttempts: 1000})
	if err != nil {
		return err
	}
	go j.keepStats() // ends with the process
	sayReady()
	if err := onefold.Run(ctx, c, r); err != nil {
		return err
	}
	return st.Close(context.Background())
}

// handler is what workers do with orders.
type handler struct {
	part    int
	journal *journal
}

func (h handler) handle(ctx context.Context, m *onefold.Message, fx *onefold.Effects) error {
	var o order
	if err := json.Unmarshal(m.Data, &o); err != nil {
		return onefold.Permanent(err)
	}
	h.journal.note("run", o.ID, o.Account, m.Sequence, o.Mood)
	if err := h.behave(ctx, o, fx.Attempt()); err != nil {
		return err
	}
	data, _, err := fx.Get(ctx, "accounts", o.Account)
	if err != nil {
		return err
	}
	var a account
	if len(data) > 0 {
		if err := json.Unmarshal(data, &a); err != nil {
			return onefold.Permanent(err)
		}
	}
	if m.Time.Before(a.Last) {
		a.Disorder = append(a.Disorder, o.ID)
	} else {
		a.Last = m.Time
	}
	a.N++
	if data, err = json.Marshal(a); err != nil {
		return err
	}
	fx.Put("accounts", o.Account, data)
	body, err := json.Marshal(effect{Order: o.ID, Account: o.Account, N: a.N})
	if err != nil {
		return err
	}
	fx.Emit(onefold.Effect{Kind: onefold.KindMessage, Target: fmt.Sprintf("effects.%d", h.part), Payload: body, OrderKey: o.Account})
	return nil
}

// behave is the mood of an order.
func (h handler) behave(ctx context.Context, o order, attempt int) error {
	switch first := attempt == 1; {
	case o.Mood == moodSlow:
		return pause(ctx, 150*time.Millisecond)
	case o.Mood == moodFails && attempt <= 2:
		return errors.New("not yet")
	case o.Mood == moodLater && first:
		return onefold.RetryAfter(300*time.Millisecond, errors.New("later"))
	case o.Mood == moodPoison:
		return onefold.Permanent(errors.New("poison"))
	case o.Mood == moodPanics && first:
		panic("in a panic")
	case o.Mood == moodHangs && first:
		_ = pause(context.Background(), 3*handlerTimeout)
	case o.Mood == moodKills:
		h.journal.note("kills", o.ID)
		die()
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// apply is what the sink does: it counts how often each order was applied. It should be once.
func apply(ctx context.Context, e effect, fx *onefold.Effects) error {
	data, _, err := fx.Get(ctx, "applied", e.Order)
	if err != nil {
		return err
	}
	fx.Put("applied", e.Order, append(data, 'x'))
	return nil
}
