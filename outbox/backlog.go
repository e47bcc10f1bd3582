package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrBehind reports that rows do not leave as they should.
var ErrBehind = errors.New("outbox: rows wait longer than they should")

// Backlog is what has not left yet, and what the relay is doing about it.
type Backlog struct {
	State   string        // of the relay: StateNew, StateRunning, StateWaiting, StateStopped
	Waiting uint64        // rows in the store that are not parked: those below, and delayed ones
	Parked  uint64        // rows that wait for a person
	Oldest  time.Duration // age of the oldest row that is neither parked nor delayed, one that is out included; 0: none
	Asked   time.Duration // since any relay has last asked this store for rows; < 0: never

	Messages int // published, and not yet answered
	Calling  int // calls under way
	Held     int // calls that wait in memory for their turn; more may wait in the store, as delayed rows
}

// Backlog returns the figures of the store's outbox and of this relay, for metrics, health checks and people. It may be
// called at any time, also while Run does not run. Errors: those of [onefold.Store] for Stats.
func (r *Relay) Backlog(ctx context.Context) (Backlog, error) {
	stats, err := r.store.Stats(ctx)
	if err != nil {
		return Backlog{}, fmt.Errorf("backlog of the outbox: %w", err)
	}
	b := Backlog{
		State: r.status.current(), Waiting: stats.Waiting, Parked: stats.Parked,
		Oldest: stats.OldestWaiting, Asked: stats.LastFeed,
	}
	if s := r.session.Load(); s != nil {
		b.Messages = s.pub.pending()
		_, b.Calling, b.Held = s.calls.count()
	}
	return b, nil
}

// Check is the health check of an outbox: nil, or an [ErrBehind] that says what is wrong. limit is the age up to which
// a row may wait; it must be longer than the longest call. Parked rows are no reason: they wait for a person, however
// well the relay is.
func (b Backlog) Check(limit time.Duration) error {
	switch {
	case b.Oldest > limit:
		return fmt.Errorf("%w: the oldest has waited %v, the limit is %v; the relay is %s, %d rows wait",
			ErrBehind, b.Oldest, limit, b.State, b.Waiting)
	case b.Waiting > 0 && b.Asked < 0:
		return fmt.Errorf("%w: %d rows wait and no relay has asked for them", ErrBehind, b.Waiting)
	}
	return nil
}
