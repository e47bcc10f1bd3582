package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
)

// plan tells a worker process what to do and where to die. It travels in the environment.
type plan struct {
	URL    string
	Dir    string // of the store
	Orders string // stream to consume
	Target string // subject of charges
	Dead   string // subject of dead letters
	Point  string // crash point; empty: live until standard input ends
	Nth    int64  // die when the point is passed this often

	// Together, if not 0, makes killer orders kill the process as soon as so many handlers are in flight. With
	// more than one, the others wait for that.
	Together    int64
	Concurrency int
}

const planVariable = "ONEFOLD_CRASHTEST_PLAN"

// TestMain makes this test binary serve as the worker process as well.
func TestMain(m *testing.M) {
	encoded, worker := os.LookupEnv(planVariable)
	if !worker {
		os.Exit(m.Run())
	}
	var p plan
	err := json.Unmarshal([]byte(encoded), &p)
	if err == nil {
		err = p.work()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// ackWait is short, so that a killed worker's messages come back soon.
const ackWait = time.Second

type order struct {
	ID     string
	Poison bool
	Killer bool // see plan.Together
}

// charge asks for one charge an order. Poison orders cannot be handled.
func (p plan) charge(_ context.Context, o order, fx *onefold.Effects) error {
	if o.Poison {
		return onefold.Permanent(errors.New("poison"))
	}
	fx.Publish(p.Target, o.ID)
	return nil
}

// work is the whole service.
func (p plan) work() error {
	nc, err := nats.Connect(p.URL, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	st, err := boltstore.Open(p.Dir, nil)
	if err != nil {
		return err
	}
	obs := p.observer()
	c, err := consumer.New(js, st, consumer.Config{Stream: p.Orders, Name: "billing", Handler: consumer.JSON(p.handler()),
		Concurrency: p.Concurrency, AckWait: ackWait, DeadLetterSubject: p.Dead, Observer: obs})
	if err != nil {
		return err
	}
	r, err := outbox.NewRelay(st, outbox.Config{JetStream: js, Observer: obs})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }() // ends with the process
	if err := onefold.Run(ctx, c, r); err != nil {
		return err
	}
	return st.Close(context.Background())
}

// observer dies at the point of the plan.
func (p plan) observer() *onefold.Observer {
	var passed atomic.Int64
	die := func(point string) {
		if point == p.Point && passed.Add(1) == p.Nth {
			killSelf()
		}
	}
	delivery := func(point string) func(onefold.DeliveryEvent) { return func(onefold.DeliveryEvent) { die(point) } }
	row := func(point string) func(onefold.RowEvent) { return func(onefold.RowEvent) { die(point) } }
	return &onefold.Observer{
		Received: delivery("received"), Claimed: delivery("claimed"), Handled: delivery("handled"),
		Committed: delivery("committed"), Acked: delivery("acked"),
		Fetched: row("fetched"), Published: row("published"), Settled: row("settled"),
	}
}
