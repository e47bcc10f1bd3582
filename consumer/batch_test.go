package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

// batched is a configuration whose work is done in batches.
func (r *rig) batched(size int, h consumer.BatchHandler) consumer.Config {
	c := r.config(nil)
	c.Batch, c.Concurrency = &consumer.Batch{Handler: h, Size: size, Wait: 200 * time.Millisecond}, 2*size
	return c
}

func bodies(items []*consumer.BatchItem) (all []string) {
	for _, i := range items {
		all = append(all, string(i.Message.Data))
	}
	return all
}

func TestEachMessageOfABatchHasAnOutcomeAndEffectsOfItsOwn(t *testing.T) {
	r := newRig(t)
	r.output()
	var mu sync.Mutex
	var calls [][]string
	c := r.batched(10, func(_ context.Context, items []*consumer.BatchItem) error {
		mu.Lock()
		calls = append(calls, bodies(items))
		mu.Unlock()
		for _, i := range items {
			i.Effects.Publish("out.a", string(i.Message.Data))
			switch {
			case string(i.Message.Data) == "b3" && i.Effects.Attempt() == 1:
				i.Err = errors.New("not yet")
			case string(i.Message.Data) == "b5":
				i.Err = onefold.Permanent(errors.New("never"))
			}
		}
		return nil
	})
	for i := range 10 {
		r.publish(fmt.Sprint(i), fmt.Sprint("b", i))
		r.publish(fmt.Sprint(i), fmt.Sprint("b", i)) // a copy
	}
	w, relay := r.start(c), r.relay()
	r.await("all", func(c map[string]int) bool { return c["acked"]+c["duplicate"] == 20 })
	r.settled()
	w.end()
	relay.end()

	assert.Equal(t, 9, r.stored("OUT"), "b5 sends nothing, every other one once")
	require.Len(t, r.events("dead"), 1)
	assert.Equal(t, "5", r.events("dead")[0].event.Key.ID)
	assert.Equal(t, 1, r.count("retried"))
	require.NotEmpty(t, calls)
	assert.Len(t, calls[0], 10, "one call for ten messages")
	assert.Equal(t, []string{"b3"}, calls[len(calls)-1], "what has failed is called alone")
}

// One message makes every call fail that it is in. It alone becomes a dead letter.
func TestAPoisonMessageDoesNotTakeItsBatchToTheDeadLetters(t *testing.T) {
	r := newRig(t)
	c := r.batched(8, func(_ context.Context, items []*consumer.BatchItem) error {
		for _, body := range bodies(items) {
			if body == "poison" {
				panic("poison")
			}
		}
		return nil
	})
	c.MaxAttempts = 4
	for i := range 16 {
		body := "good"
		if i == 5 {
			body = "poison"
		}
		r.publish(fmt.Sprint(i), body)
	}
	w, relay := r.start(c), r.relay()
	r.awaitCount("acked", 16)
	w.end()
	relay.end()
	require.Len(t, r.events("dead"), 1)
	dead := r.events("dead")[0].event
	assert.Equal(t, "5", dead.Key.ID)
	assert.Equal(t, 4, dead.Attempt)
	for _, e := range r.events("committed") {
		if e.event.Key.ID != "5" {
			assert.LessOrEqual(t, e.event.Attempt, 2)
		}
	}
}

// batcher_test.go has that its leader alone becomes a zombie; here each may, when the machine is slow.
func TestTheMessagesOfABatchWhoseCallOverstaysRunAgain(t *testing.T) {
	r, g := newRig(t), newGate()
	var called atomic.Bool
	c := r.batched(4, func(context.Context, []*consumer.BatchItem) error {
		if called.CompareAndSwap(false, true) {
			return g.pass(context.Background())
		}
		return nil
	})
	c.Batch.Wait, c.HandlerTimeout = 20*time.Millisecond, 400*time.Millisecond
	for i := range 4 {
		r.publish(fmt.Sprint(i), "x")
	}
	w := r.start(c)
	r.awaitCount("acked", 4)
	zombies := r.count("zombie")
	assert.Positive(t, zombies)
	close(g.open)
	r.awaitCount("zombie ended", zombies)
	w.end()
	assert.Equal(t, 4, r.count("committed"))
}

func TestABatchThatFillsUpIsHandledAtShutdown(t *testing.T) {
	r := newRig(t)
	c := r.batched(4, func(context.Context, []*consumer.BatchItem) error { return nil })
	r.publish("one", "x")
	w := r.start(c)
	r.awaitCount("claimed", 1)
	w.end()
	assert.Equal(t, 1, r.count("acked"))
}

func TestABodyThatDoesNotDecodeFailsNoOtherOfItsBatch(t *testing.T) {
	r := newRig(t)
	seen := make(chan int, 9)
	c := r.batched(3, consumer.JSONBatch(func(_ context.Context, batch []consumer.Decoded[struct{ N int }]) error {
		for _, item := range batch {
			item.Effects.Result([]byte(fmt.Sprint(item.Value.N)))
			if item.Value.N == 2 {
				item.Err = onefold.Permanent(errors.New("two"))
			}
		}
		seen <- len(batch)
		return nil
	}))
	for i, body := range []string{`{"N":1}`, `{"N":`, `{"N":2}`} {
		r.send(&nats.Msg{Subject: "in.a", Data: []byte(body), Header: nats.Header{onefold.HeaderID: {fmt.Sprint(i)}}})
	}
	w, relay := r.start(c), r.relay()
	r.awaitCount("acked", 3)
	w.end()
	relay.end()
	assert.Equal(t, 2, <-seen)
	require.Len(t, r.events("dead"), 2)
	var reasons []string
	for _, e := range r.events("dead") {
		reasons = append(reasons, e.event.Err.Error())
	}
	assert.Contains(t, fmt.Sprint(reasons), "decode body as struct { N int }")
	assert.Contains(t, fmt.Sprint(reasons), "two")
	assert.Nil(t, consumer.JSONBatch[int](nil))
	assert.Nil(t, consumer.Batch{}.OneByOne())
}

func TestBatchesThatCannotWorkAreRefused(t *testing.T) {
	r := newRig(t)
	good := func(context.Context, []*consumer.BatchItem) error { return nil }
	plain := func(context.Context, *onefold.Message, *onefold.Effects) error { return nil }
	for name, c := range map[string]struct {
		change func(*consumer.Config)
		want   string
	}{
		"no handler":    {func(c *consumer.Config) { c.Batch.Handler = nil }, "Config.Batch.Handler is nil"},
		"two handlers":  {func(c *consumer.Config) { c.Handler = plain }, "Config.Handler and Batch are both set"},
		"negative size": {func(c *consumer.Config) { c.Batch.Size = -1 }, "Config.Batch.Size is -1"},
		"never full":    {func(c *consumer.Config) { c.Concurrency = 7 }, "Config.Concurrency is 7 and Batch.Size 8"},
		"no unit":       {func(c *consumer.Config) { c.Batch.Wait = 10 }, "Config.Batch.Wait is 10ns"},
		"long wait":     {func(c *consumer.Config) { c.Batch.Wait, c.ShutdownTimeout = time.Second, time.Second }, "Config.Batch.Wait is 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := r.batched(8, good)
			c.change(&cfg)
			_, err := consumer.New(r.js, r.st, cfg)
			require.ErrorIs(t, err, onefold.ErrInvalid)
			assert.ErrorContains(t, err, c.want)
		})
	}
}
