package onefold

import (
	"context"
	"time"
)

// Feed hands out effects that are due. It belongs to one relay; its methods may be called concurrently.
type Feed interface {
	// Next waits for at least one due row and returns at most max, in commit order for rows of equal
	// OrderKey: a row is handed out only when no earlier row of its OrderKey is out, delayed, or parked
	// with Hold, so at most one row of a key is out at a time. Rows that are not due, delayed or parked are
	// stepped over and survive retention. A row comes again, with a higher Attempt, if its hold ends
	// unsettled. Attempts are durable at the latest when the row is settled; after an unclean open they
	// are made durable before the row is handed out.
	//
	// Errors: ErrLost (this feed is closed or its lease has ended: reopen), ErrUnavailable, ErrDamaged, ErrClosed,
	// ErrInvalid.
	Next(ctx context.Context, max int) ([]Row, error)

	// Close gives unsettled rows back at once. Closing twice is success.
	Close() error
}

// Row is an effect in the hands of one feed, or found by Scan.
type Row struct {
	Key     Key
	Effect  Effect
	Attempt int  // 1 when handed out for the first time
	Tried   bool // a Once call was announced earlier and its outcome is not known
	Handle  any  // read by its store only
}

// LeavesAs is the ID that the row leaves under: the transport ID of a message, the idempotency key of a call. It is
// Effect.ID, or for a timer Key.TimerID. The Effect.ID of a timer is that of its place: one setting takes it after the
// other, and a receiver must not take the second for a copy of the first.
func (r *Row) LeavesAs() string {
	if r.Effect.Timer == "" {
		return r.Effect.ID
	}
	return r.Key.TimerID(r.Effect.Timer)
}

// State is what became of a row.
type State uint8

const (
	// Sent ends the row: it is stored where it belongs.
	Sent State = iota + 1
	// Delayed keeps the row and hands it out again at Settlement.At.
	Delayed
	// Parked keeps the row for a person.
	Parked
	// Tried announces an at-most-once call; the row stays out.
	Tried
	// Discarded ends the row without sending it.
	Discarded
)

// String names the state.
func (s State) String() string {
	switch s {
	case Sent:
		return "sent"
	case Delayed:
		return "delayed"
	case Parked:
		return "parked"
	case Tried:
		return "tried"
	case Discarded:
		return "discarded"
	}
	return "none"
}

// Settlement is one row's outcome.
type Settlement struct {
	Row       Row
	State     State
	At        time.Time // Delayed: not before; zero: at once
	Uncounted bool      // Delayed: this try uses up no attempt
	Hold      bool      // Parked: later rows of its OrderKey wait for a person
	Untried   bool      // Parked: the call that was announced has certainly not happened
	Reason    string    // Delayed, Parked, Discarded; truncated by the store to MaxReasonBytes
}
