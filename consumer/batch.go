package consumer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
)

// The defaults of Batch.
const (
	DefaultBatchSize = 100
	DefaultBatchWait = 10 * time.Millisecond
)

// Batch hands several messages to one call, for work that costs as much for a hundred messages as for one, such
// as a round trip to a database. It changes nothing else: each message of a batch has a claim, an outcome,
// effects, attempts and a deadline of its own, and is retried, committed, acked and dead-lettered by itself.
//
// A batch is called as soon as it has Size messages, or when Wait is over since its first one. Config.Concurrency
// is how many messages are in batches at once, those that still fill up included, so that Concurrency / Size
// batches run side by side; it must not be less than Size, and its default is twice Size.
//
// A message that has failed before is called in a batch of its own: otherwise one message that makes the whole call
// fail would take its neighbours to the dead letters with it. The same holds for one that may have killed an
// earlier process. Messages of one ordering key (Config.OrderBy) and copies of one ID never share a batch.
type Batch struct {
	// Handler handles the messages of one batch. Set the Err of an item to fail that item; an error that is
	// returned is that of every item without an Err of its own, a panic or runtime.Goexit likewise. What
	// onefold.Permanent, onefold.RetryAfter and onefold.ErrConflict mean for a Handler they mean for an item.
	//
	// It may be called several times at once. Its context is that of the batch: it ends when those of all its
	// messages have ended, at shutdown or after Config.HandlerTimeout.
	Handler BatchHandler

	Size int           // most messages of one batch; default DefaultBatchSize
	Wait time.Duration // how long the first one waits for others; default DefaultBatchWait
}

// BatchHandler handles the messages of a batch; see [Batch]. It must not keep items after it has returned.
type BatchHandler func(ctx context.Context, items []*BatchItem) error

// BatchItem is one message of a batch, and what becomes of it.
type BatchItem struct {
	Message *onefold.Message // not to be changed
	Effects *onefold.Effects // what is asked for here is committed if the item ends without an error
	Err     error            // nil: it has succeeded, unless the whole call failed
}

// OneByOne is a handler that calls b.Handler with one message at a time, for tests and for those who wrap it in
// middleware. It is nil if b.Handler is.
func (b Batch) OneByOne() onefold.Handler {
	if b.Handler == nil {
		return nil
	}
	return func(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
		item := &BatchItem{Message: msg, Effects: fx}
		if err := b.Handler(ctx, []*BatchItem{item}); item.Err == nil {
			return err
		}
		return item.Err
	}
}

// Decoded is an item whose body was decoded.
type Decoded[T any] struct {
	*BatchItem
	Value T
}

// JSONBatch makes a BatchHandler of a function that takes the bodies decoded as JSON. An item whose body does not
// decode becomes a dead letter, with the decode error as its reason and the raw bytes as its body, and is not in
// the slice; if none is left, the function is not called. JSONBatch(nil) is nil, which New refuses.
func JSONBatch[T any](handle func(ctx context.Context, batch []Decoded[T]) error) BatchHandler {
	if handle == nil {
		return nil
	}
	return func(ctx context.Context, items []*BatchItem) error {
		batch := make([]Decoded[T], 0, len(items))
		for _, item := range items {
			d := Decoded[T]{BatchItem: item}
			if err := json.Unmarshal(item.Message.Data, &d.Value); err != nil {
				item.Err = onefold.Permanent(fmt.Errorf("decode body as %T: %w", d.Value, err))
				continue
			}
			batch = append(batch, d)
		}
		if len(batch) == 0 {
			return nil
		}
		return handle(ctx, batch)
	}
}

// withBatch fills in what batches change about c.
func (c *Config) withBatch() {
	if c.Batch == nil {
		return
	}
	own := *c.Batch
	setDefault(&own.Size, DefaultBatchSize)
	setDefault(&own.Wait, DefaultBatchWait)
	setDefault(&c.Concurrency, 2*own.Size)
	c.Batch = &own
}

// checkHandler reports what is wrong with what does the work.
func (c Config) checkHandler(p *problems) {
	switch b := c.Batch; {
	case b == nil && c.Handler == nil:
		p.add("Handler is nil; set it, for example with consumer.JSON, or Batch")
	case b == nil:
	case c.Handler != nil:
		p.add("Handler and Batch are both set; set the one that does the work")
	case b.Handler == nil:
		p.add("Batch.Handler is nil; set it, for example with consumer.JSONBatch")
	case b.Size < 1:
		p.add("Batch.Size is %d; leave it 0 for the default or give a positive value", b.Size)
	case c.Concurrency > 0 && c.Concurrency < b.Size:
		p.add("Concurrency is %d and Batch.Size %d; no batch would ever be full, make Concurrency at least as large", c.Concurrency, b.Size)
	case b.Wait < minDuration:
		p.add("Batch.Wait is %v; it must be at least %v (is the unit right?), or 0 for the default", b.Wait, minDuration)
	case c.HandlerTimeout > 0 && b.Wait > c.HandlerTimeout/2, c.ShutdownTimeout > 0 && b.Wait > c.ShutdownTimeout/2:
		p.add("Batch.Wait is %v, HandlerTimeout %v and ShutdownTimeout %v; waiting counts, so make Wait at most half of the shorter one",
			b.Wait, c.HandlerTimeout, c.ShutdownTimeout)
	}
}
