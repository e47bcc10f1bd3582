package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
)

// This file is what stands above one session: it is opened as soon as server and store can be reached, and
// another one follows when the durable or its stream has vanished. What was in flight is not lost by that:
// the session ends as at shutdown, what it has committed is answered by the store, and the rest is delivered
// again.

// serve runs sessions until ctx ends or one of them ends for a reason that another could not mend.
func (c *Consumer) serve(ctx context.Context, state *status) error {
	retry := pace.Store()
	for served := false; ; served = true {
		s, err := c.openPatiently(ctx, state, served)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		began := c.cfg.Clock.Mono()
		c.live.runs(s)
		err = s.run(ctx)
		c.live.ends()
		if !vanished(err) || errors.Is(err, ErrHandlersRunning) {
			return err
		}
		if unlessEnded(ctx, err) == nil {
			return nil
		}
		state.become(StateOpening, err)
		// Something that takes the durable away again and again is not raced with.
		if c.cfg.Clock.Mono()-began > steadyAfter {
			retry.Reset()
		}
		if !pace.Sleep(ctx, retry.NextBackOff()) {
			return nil
		}
	}
}

// steadyAfter is how long a session lasts that was opened to some purpose.
const steadyAfter = time.Minute

// unlessEnded is err, or nil if ctx has ended: being told to stop is no failure.
func unlessEnded(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// openTimeout bounds one attempt to open a session, so that a request lost in a broken connection is made
// again. It is long enough for a cluster that is busy electing leaders.
const openTimeout = 15 * time.Second

// openPatiently opens a session as soon as server and store can be reached. The observer is told what is
// waited for. If an earlier session of this Run has ended because durable or stream had vanished, it waits
// for them, too, within Config.LostTimeout.
func (c *Consumer) openPatiently(ctx context.Context, state *status, served bool) (*session, error) {
	if conn := c.js.Conn(); !conn.IsConnected() && !conn.IsClosed() {
		state.become(StateOpening, disconnected(conn))
	}
	retry, wait := pace.Store(), patience{limit: c.cfg.LostTimeout, served: served}
	for {
		attempt, cancel := context.WithTimeout(ctx, openTimeout)
		s, err := c.open(attempt, state)
		cancel()
		if err == nil || !wait.goesOn(err, c.cfg.Clock.Mono()) {
			return s, err
		}
		state.become(StateOpening, err)
		if !pace.Sleep(ctx, retry.NextBackOff()) {
			return nil, err
		}
	}
}

// patience decides how long what cannot be opened is tried again.
type patience struct {
	limit  time.Duration // for what has vanished
	served bool          // it was there before
	gone   bool
	since  time.Duration // when it was first found gone
}

// goesOn reports whether to try again after err.
func (p *patience) goesOn(err error, now time.Duration) bool {
	switch {
	case passing(err):
		p.gone = false // nobody knows what a server has that cannot be asked
		return true
	case !p.served || !vanished(err):
		return false
	case !p.gone:
		p.gone, p.since = true, now
	}
	return now-p.since < p.limit
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

// vanished reports whether err says that the durable or its stream is not there.
func vanished(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
		errors.Is(err, jetstream.ErrConsumerDoesNotExist) || errors.Is(err, jetstream.ErrStreamNotFound)
}
