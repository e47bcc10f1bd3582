package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"

	"github.com/onefold-go/onefold"
)

// The states that a Relay reports to its observer, as part "relay".
const (
	StateRunning = "running" // rows go out as they come
	StateWaiting = "waiting" // the store, its feed or the server is not available now
	StateStopped = "stopped" // Run has returned
)

// ErrRunning reports a second Run while the first has not returned.
var ErrRunning = errors.New("outbox: relay is running already")

// Relay sends the rows of one store. It is an [onefold.Part].
type Relay struct {
	store   onefold.Store
	config  Config
	running atomic.Bool

	mu    sync.Mutex
	state string
}

var _ onefold.Part = (*Relay)(nil)

// NewRelay returns a relay for the rows of st. It does no I/O. Errors: [onefold.ErrInvalid], naming the
// field.
func NewRelay(st onefold.Store, c Config) (*Relay, error) {
	if st == nil {
		return nil, fmt.Errorf("%w: relay: the store is nil; open one first", onefold.ErrInvalid)
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Relay{store: st, config: c, state: StateStopped}, nil
}

// Run sends rows until ctx ends. It then stops fetching, waits for answers up to
// Config.ShutdownTimeout, settles what has been answered and gives the rest back. All goroutines have
// ended when it returns, and it may be called again.
//
// It survives lost connections, server restarts, a store that is busy with another relay, full or not
// reachable. A row that cannot be sent delays no other, except those of its ordering key.
//
// It returns nil if it ended because ctx did. Errors: [nats.ErrConnectionClosed] (the connection was
// closed and will not come back), [onefold.ErrClosed], [onefold.ErrDamaged], [onefold.ErrInvalid],
// ErrRunning.
func (r *Relay) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.running.Store(false)
	err := r.untilEnd(ctx)
	r.turn(StateStopped, err)
	return err
}

// untilEnd opens feeds, one after the other, until ctx or a fatal error ends it.
func (r *Relay) untilEnd(ctx context.Context) error {
	pause := retryPolicy()
	for {
		feed, err := r.open(ctx)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		idle, err := r.serve(ctx, feed)
		if !errors.Is(err, onefold.ErrLost) {
			return unlessEnded(ctx, err)
		}
		r.turn(StateWaiting, err)
		if !idle {
			pause.Reset()
		}
		if !sleep(ctx, pause.NextBackOff()) {
			return nil
		}
	}
}

// unlessEnded drops an error that only says that ctx has ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil || isAny(err, onefold.ErrClosed, onefold.ErrDamaged, onefold.ErrInvalid) {
		return err
	}
	return nil
}

// open opens a feed, waiting for another relay to end and for the store to come back.
func (r *Relay) open(ctx context.Context) (onefold.Feed, error) {
	return backoff.RetryNotifyWithData(func() (onefold.Feed, error) {
		if r.config.JetStream.Conn().IsClosed() {
			return nil, backoff.Permanent(fmt.Errorf("relay: %w", nats.ErrConnectionClosed))
		}
		feed, err := r.store.Feed(ctx, r.config.Lease)
		if err != nil && !isAny(err, onefold.ErrBusy, onefold.ErrUnavailable, onefold.ErrFull) {
			return nil, backoff.Permanent(fmt.Errorf("open feed: %w", err))
		}
		return feed, err
	}, backoff.WithContext(retryPolicy(), ctx), func(err error, _ time.Duration) { r.turn(StateWaiting, err) })
}

// serve runs one feed to its end and closes it. idle says that it settled nothing.
func (r *Relay) serve(ctx context.Context, feed onefold.Feed) (idle bool, err error) {
	conn := r.config.JetStream.Conn()
	pub, err := newPublisher(conn, r.config.Window, r.config.PublishTimeout)
	if err != nil {
		return true, errors.Join(err, feed.Close())
	}
	s := &session{
		relay: r, feed: feed, conn: conn, pub: pub, window: newWindow(r.config.Window),
		troubles: troubles{lowest: r.config.RetryMin, highest: r.config.RetryMax},
	}
	err = s.run(ctx)
	pub.close()
	if closeErr := feed.Close(); closeErr != nil && err == nil {
		err = fmt.Errorf("close feed: %w", closeErr)
	}
	return s.settled == 0, err
}

// turn tells the observer if the state has changed.
func (r *Relay) turn(to string, err error) {
	r.mu.Lock()
	from := r.state
	r.state = to
	r.mu.Unlock()
	if from != to && r.config.Observer.State != nil {
		r.config.Observer.State(onefold.StateEvent{At: r.config.Clock.Wall(), Part: "relay", From: from, To: to, Err: err})
	}
}

// retryPolicy is how the relay waits for the store: at first often, later every two seconds.
func retryPolicy() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(10*time.Millisecond),
		backoff.WithMultiplier(2), backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0))
}

// sleep waits for d and reports false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
