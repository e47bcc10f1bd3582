package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// The errors that Run adds to those of the store and of nats.go.
var (
	// ErrScopeInUse: another live consumer uses this store with the same scope or the same durable.
	ErrScopeInUse = errors.New("used by another live consumer of this store")
	// ErrHandlersRunning: handlers ignored the end of their context at shutdown; their results are refused.
	ErrHandlersRunning = errors.New("handlers still running after the shutdown timeout")
	// ErrWrongStore: the durable goes with another store, or this store is an older copy of the one it goes with.
	ErrWrongStore = errors.New("not the store that this durable goes with")
	// ErrServedElsewhere: another live process serves the durable with a store of its own.
	ErrServedElsewhere = errors.New("served by another live process")
	// ErrUnrelayed: nobody carries out what the store holds. It does not end Run; it goes with StateUnrelayed.
	ErrUnrelayed = errors.New("no relay")
)

// Consumer runs a handler for the messages of one durable JetStream consumer. It is a [onefold.Part].
type Consumer struct {
	js  jetstream.JetStream
	st  onefold.Store
	cfg Config

	live live
}

// New checks the configuration and returns a consumer that is not running yet. It does no I/O. The
// connection of js and the store st stay the caller's: close them after Run has returned, and set
// nats.MaxReconnects(-1) on the connection, or Run ends when the client gives up reconnecting.
//
// Errors: [onefold.ErrInvalid], naming every field that cannot work.
func New(js jetstream.JetStream, st onefold.Store, cfg Config) (*Consumer, error) {
	if js == nil {
		return nil, fmt.Errorf("%w: js is nil; pass the JetStream context of a connection", onefold.ErrInvalid)
	}
	if st == nil {
		return nil, fmt.Errorf("%w: st is nil; open a store, for example with boltstore.Open", onefold.ErrInvalid)
	}
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("consumer %q on stream %q: %w", cfg.Name, cfg.Stream, err)
	}
	if cfg.Batch != nil {
		cfg.Handler = newBatcher(*cfg.Batch, cfg.HandlerTimeout).handle
	}
	return &Consumer{js: js, st: st, cfg: cfg}, nil
}

// Run consumes until ctx ends or it cannot go on. It makes the durable consumer and the dead-letter stream
// if they do not exist, and notes in the durable's metadata which store goes with it.
//
// When ctx ends it stops asking for messages, gives back at once what has not started, waits for running
// handlers up to Config.ShutdownTimeout, cancels their contexts, commits what they asked for, acks, and
// returns nil.
//
// Otherwise it returns why it ended: the store is closed or damaged ([onefold.ErrClosed],
// [onefold.ErrDamaged]), the connection was closed for good (jetstream.ErrConnectionClosed,
// nats.ErrConnectionClosed), the configuration does not fit what the server has ([onefold.ErrInvalid]), the
// store does not fit the durable ([ErrWrongStore]), somebody else serves it ([ErrServedElsewhere],
// [ErrScopeInUse]), or [ErrHandlersRunning].
//
// Unreachable servers and full or unavailable stores do not end it: it waits for them to start, stops pulling
// while they are away, and goes on when they are back. A durable that vanishes is made again, behind what is
// settled; so is one whose stream has vanished, when the stream is back. A stream that stays away for
// Config.LostTimeout ends Run (jetstream.ErrStreamNotFound), and so does a durable that is not ours to make
// (jetstream.ErrConsumerNotFound): one that somebody else made, see Config.AdoptDurable, or any with
// Config.BindOnly. At the start, before they were seen once, neither is waited for.
//
// Run may be called again after it has returned.
func (c *Consumer) Run(ctx context.Context) error {
	if c == nil {
		return fmt.Errorf("%w: the consumer is nil; was the error of New checked?", onefold.ErrInvalid)
	}
	state := newStatus(c.cfg)
	c.live.opens(state)
	err := c.serve(ctx, state)
	state.become(StateStopped, err)
	if err != nil {
		return fmt.Errorf("consumer %s on stream %s: %w", c.cfg.Name, c.cfg.Stream, err)
	}
	return nil
}
