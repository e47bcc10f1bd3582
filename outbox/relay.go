package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
)

// ErrRunning reports a second Run while the first has not returned.
var ErrRunning = errors.New("outbox: relay is running already")

// Relay sends the rows of one store. It is an [onefold.Part].
type Relay struct {
	store    onefold.Store
	config   Config
	running  atomic.Bool
	status   status
	active   active
	verified firsts  // used by the running session
	targets  targets // likewise; nil: nobody wants to know
	session  atomic.Pointer[session]
}

var _ onefold.Part = (*Relay)(nil)

// NewRelay returns a relay for the rows of st. It does no I/O. Errors: [onefold.ErrInvalid], naming every
// bad field.
func NewRelay(st onefold.Store, c Config) (*Relay, error) {
	c = c.withDefaults()
	err := c.check()
	if st == nil {
		err = errors.Join(fmt.Errorf("%w: relay: the store is nil; open one first", onefold.ErrInvalid), err)
	}
	if err != nil {
		return nil, err
	}
	var seen targets
	if c.Observer.Warned != nil {
		seen = targets{}
	}
	return &Relay{
		store: st, config: c, verified: firsts{clean: st.Info().Clean}, targets: seen,
		status: status{state: StateNew, tell: c.Observer.State, clock: c.Clock},
	}, nil
}

// Run sends rows until ctx ends. It then stops fetching, waits for answers up to
// Config.ShutdownTimeout, settles what has been answered and gives the rest back. Calls that are under way
// may go on for half of that time; then their contexts end. All goroutines have ended when it returns, except for
// those of functions that ignore this, and it may be called again.
//
// It survives lost connections, server restarts, a store that is busy with another relay, full or not
// reachable. A row that cannot be sent delays no other, except those of its ordering key.
//
// It returns nil if it ended because ctx did. Errors: [nats.ErrConnectionClosed] (the connection was
// closed and will not come back), [onefold.ErrClosed], [onefold.ErrDamaged], [onefold.ErrInvalid],
// ErrRunning, and ErrStillCalling, alone or besides one of these.
func (r *Relay) Run(ctx context.Context) error {
	if r == nil {
		return fmt.Errorf("%w: the relay is nil; was the error of NewRelay checked?", onefold.ErrInvalid)
	}
	if !r.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.running.Store(false)
	err := r.untilEnd(ctx)
	if left := r.active.left(); left != nil {
		err = errors.Join(err, left)
	}
	r.status.stop(err)
	return err
}

// untilEnd opens feeds, one after the other, until ctx or a fatal error ends it.
func (r *Relay) untilEnd(ctx context.Context) error {
	pause := pace.Store()
	for {
		r.status.begin()
		feed, err := r.open(ctx)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		idle, err := r.serve(ctx, feed)
		if !errors.Is(err, onefold.ErrLost) {
			return unlessEnded(ctx, err)
		}
		r.status.hindered(noFeed, err)
		if !idle {
			pause.Reset()
		}
		if !pace.Sleep(ctx, pause.NextBackOff()) {
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
	}, backoff.WithContext(pace.Store(), ctx), func(err error, _ time.Duration) { r.status.hindered(noFeed, err) })
}

// serve runs one feed to its end and closes it. idle says that it settled nothing.
func (r *Relay) serve(ctx context.Context, feed onefold.Feed) (idle bool, err error) {
	pub, err := newPublisher(r.config.JetStream.Conn(), r.config.Window, r.config.PublishTimeout)
	if err != nil {
		return true, errors.Join(err, feed.Close())
	}
	s := newSession(r, feed, pub)
	err = s.run(ctx)
	pub.close()
	if closeErr := feed.Close(); closeErr != nil && err == nil {
		err = fmt.Errorf("close feed: %w", closeErr)
	}
	return s.settled == 0, err
}
