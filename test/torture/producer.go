package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// producers publish orders as careful programs do: the same again, under the same ID, until the server has confirmed it.
type producers struct {
	options options
	js      jetstream.JetStream
	ledger  *ledger
	epoch   func() int
}

const (
	accountsEach    = 12
	producersEach   = 4 // for each worker
	publishPatience = 700 * time.Millisecond
	maxStorm        = 40 // copies at once
)

// run publishes until ctx ends, and then goes on until what was begun is confirmed.
func (p *producers) run(ctx context.Context) {
	var all sync.WaitGroup
	for part := range p.options.workers {
		for n := range producersEach {
			all.Go(func() { p.produce(ctx, part, n) })
		}
	}
	all.Wait()
}

// produce publishes the orders of some accounts one after the other.
func (p *producers) produce(ctx context.Context, part, n int) {
	random := rand.New(rand.NewPCG(p.options.seed, uint64(part)<<8|uint64(n)))
	gap := time.Duration(int64(time.Second) * int64(p.options.workers*producersEach) / int64(p.options.rate))
	ticker := time.NewTicker(max(gap, time.Millisecond))
	defer ticker.Stop()
	var copies sync.WaitGroup
	defer copies.Wait()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		o := p.order(random, part, n, i)
		p.publish(part, o)
		for range p.copies(random) {
			copies.Go(func() { p.publish(part, o) })
		}
		if random.IntN(200) == 0 && slices.Contains(p.options.faults, "reuse") {
			o.Variant++
			p.publish(part, o)
		}
	}
}

// order makes the i-th order of a producer. Accounts belong to one producer, so that the stream has their orders in the
// order in which they were made, unless a try is stored late.
func (p *producers) order(random *rand.Rand, part, n, i int) order {
	o := order{ID: fmt.Sprintf("o-%d-%d-%d", part, n, i), Account: fmt.Sprintf("a-%d-%d-%d", part, n, random.IntN(accountsEach/producersEach))}
	if slices.Contains(p.options.faults, "handler") && random.IntN(25) == 0 {
		total := 0
		for _, m := range moods {
			total += m.weight
		}
		at := random.IntN(total)
		for _, m := range moods {
			if at -= m.weight; at < 0 {
				o.Mood = m.mood
				break
			}
		}
	}
	return o
}

// copies is how many copies of an order are published besides it.
func (p *producers) copies(random *rand.Rand) int {
	draw := random.IntN(1000)
	switch {
	case !slices.Contains(p.options.faults, "copies"):
		return 0
	case draw < 3:
		return 2 + random.IntN(maxStorm)
	case draw < 250:
		return 1
	}
	return 0
}

// publish publishes one message until it is confirmed. Each try has a transport ID of its own now and then, as after a
// restart of the producer, so that the server does not drop the copy.
func (p *producers) publish(part int, o order) {
	body, _ := json.Marshal(o) // plain fields always encode
	for try := 0; ; try++ {
		m := &nats.Msg{Subject: subjectOf(part, o.Account), Data: body, Header: nats.Header{onefold.HeaderID: {o.ID}}}
		ctx, cancel := context.WithTimeout(context.Background(), publishPatience)
		_, err := p.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
		cancel()
		if err == nil {
			p.ledger.confirm(o, p.epoch())
			return
		}
		_ = pause(context.Background(), 50*time.Millisecond)
	}
}
