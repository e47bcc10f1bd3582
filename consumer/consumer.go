package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
)

// The errors that Run adds to those of the store and of nats.go.
var (
	// ErrScopeInUse: another live consumer uses this store with the same scope or the same durable.
	ErrScopeInUse = errors.New("used by another live consumer of this store")
	// ErrHandlersRunning: handlers ignored the end of their context at shutdown; their results are refused.
	ErrHandlersRunning = errors.New("handlers still running after the shutdown timeout")
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
	return &Consumer{js: js, st: st, cfg: cfg}, nil
}

// Run consumes until ctx ends or it cannot go on. It makes the durable consumer and the dead-letter stream
// if they do not exist.
//
// When ctx ends it stops asking for messages, gives back at once what has not started, waits for running
// handlers up to Config.ShutdownTimeout, cancels their contexts, commits what they asked for, acks, and
// returns nil.
//
// Otherwise it returns why it ended: the store is closed or damaged ([onefold.ErrClosed],
// [onefold.ErrDamaged]), the consumer or the stream was deleted (jetstream.ErrConsumerDeleted,
// ErrConsumerNotFound, ErrStreamNotFound), the connection was closed for good
// (jetstream.ErrConnectionClosed), the configuration does not fit what the server has
// ([onefold.ErrInvalid]), [ErrScopeInUse], or [ErrHandlersRunning]. Unreachable servers and full or
// unavailable stores do not end it: it waits for them to start, stops pulling while they are away, and goes
// on when they are back.
//
// Run may be called again after it has returned.
func (c *Consumer) Run(ctx context.Context) error {
	state := newStatus(c.cfg)
	c.live.opens(state)
	s, err := c.openPatiently(ctx, state)
	if ctx.Err() != nil && s == nil {
		state.become(StateStopped, nil)
		return nil
	}
	if err != nil {
		state.become(StateStopped, err)
		return fmt.Errorf("consumer %s on stream %s: %w", c.cfg.Name, c.cfg.Stream, err)
	}
	c.live.runs(s)
	defer c.live.ends()
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("consumer %s on stream %s: %w", c.cfg.Name, c.cfg.Stream, err)
	}
	return nil
}

// openTimeout bounds one attempt to open a session, so that a request lost in a broken connection is made
// again. It is long enough for a cluster that is busy electing leaders.
const openTimeout = 15 * time.Second

// openPatiently opens a session as soon as server and store can be reached. The observer is told what is
// waited for.
func (c *Consumer) openPatiently(ctx context.Context, state *status) (*session, error) {
	if !c.js.Conn().IsConnected() && !c.js.Conn().IsClosed() {
		state.become(StateOpening, nats.ErrDisconnected)
	}
	retry := pace.Store()
	for {
		attempt, cancel := context.WithTimeout(ctx, openTimeout)
		s, err := c.open(attempt, state)
		cancel()
		if err == nil || !passing(err) {
			return s, err
		}
		state.become(StateOpening, err)
		if !pace.Sleep(ctx, retry.NextBackOff()) {
			return nil, err
		}
	}
}

// passing reports whether err may be over when what failed is tried again.
func passing(err error) bool {
	for _, p := range []error{
		context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected,
		nats.ErrReconnectBufExceeded, onefold.ErrUnavailable, onefold.ErrFull,
	} {
		if errors.Is(err, p) {
			return true
		}
	}
	// 503 and 429: JetStream has no leader, is starting or is overloaded.
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return false
	}
	var refused *jetstream.APIError
	return errors.As(err, &refused) && (refused.Code == 503 || refused.Code == 429)
}
