package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/onefold-go/onefold"
)

// DefaultEnqueueRetention is how long Enqueue knows a key if retain is 0.
const DefaultEnqueueRetention = 24 * time.Hour

// DefaultEnqueueRuns is how often Enqueue repeats build after a conflict.
const DefaultEnqueueRuns = 10

// Enqueue commits what build asks for, outside any handler and once per key: a relay sends it after
// Enqueue has returned, even if this process dies then. There is no claim, so build must do nothing but
// ask for effects; it runs again if state that it has read moves.
//
// retain is how long the key is remembered from the commit on; 0 means DefaultEnqueueRetention. After that
// the same key is sent again.
//
// existing is true if the key held the same effects already, which is success: they were or will be sent
// once. It may also be true if an earlier try of this very call was stored and its answer was lost.
//
// Errors: the error of build, or the first error of buffering; [onefold.ErrMismatch] (the key holds other
// effects; times not to be sent before are not compared); [onefold.ErrBusy] (the key is being run
// elsewhere); [onefold.ErrConflict] after DefaultEnqueueRuns repeats; [onefold.ErrUnknown] (no answer came
// before ctx ended: call again with the same key); [onefold.ErrInvalid], and the other errors of
// [onefold.Store] for Commit.
func Enqueue(ctx context.Context, st onefold.Store, key onefold.Key, retain time.Duration,
	build func(fx *onefold.Effects) error,
) (existing bool, err error) {
	switch {
	case st == nil:
		return false, fmt.Errorf("%w: enqueue: the store is nil; open one first", onefold.ErrInvalid)
	case key.Scope == "":
		return false, fmt.Errorf("%w: enqueue: Key.Scope is empty; name what the key belongs to", onefold.ErrInvalid)
	case strings.TrimSpace(key.ID) == "":
		return false, fmt.Errorf("%w: enqueue: Key.ID is %q; give the ID that a repeat would have", onefold.ErrInvalid, key.ID)
	case retain < 0:
		return false, fmt.Errorf("%w: enqueue: retain is %v; it must be positive, or 0 for %v", onefold.ErrInvalid, retain, DefaultEnqueueRetention)
	case retain == 0:
		retain = DefaultEnqueueRetention
	}
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(2*time.Millisecond),
		backoff.WithMultiplier(2), backoff.WithMaxInterval(500*time.Millisecond), backoff.WithMaxElapsedTime(0))
	return backoff.RetryWithData(func() (bool, error) {
		existing, err := enqueueOnce(ctx, st, key, retain, build)
		if err != nil && !errors.Is(err, onefold.ErrConflict) {
			err = backoff.Permanent(err)
		}
		return existing, err
	}, backoff.WithContext(backoff.WithMaxRetries(pause, DefaultEnqueueRuns), ctx))
}

// enqueueOnce builds one entry and commits it.
func enqueueOnce(ctx context.Context, st onefold.Store, key onefold.Key, retain time.Duration,
	build func(fx *onefold.Effects) error,
) (existing bool, err error) {
	fx := onefold.NewEffects(onefold.RunInfo{
		Key: key, Attempt: 1, First: time.Now(), Limits: onefold.Limits{MaxEntry: st.Info().MaxEntry},
	}, st)
	err = build(fx)
	entry, buffering := fx.Seal()
	if err == nil {
		err = buffering
	}
	if err != nil {
		return false, fmt.Errorf("enqueue %v: %w", key, err)
	}
	entry.Fingerprint = fingerprintOf(&entry)
	entry.Outcome = onefold.Succeeded
	entry.Retain = retain
	existing, err = commitUntilKnown(ctx, st, entry)
	if err != nil {
		return false, fmt.Errorf("enqueue %v: %w", key, err)
	}
	return existing, nil
}

// commitUntilKnown commits entry without a claim and repeats while its outcome is not known.
func commitUntilKnown(ctx context.Context, st onefold.Store, entry onefold.Entry) (existing bool, err error) {
	var open error // the last ErrUnknown; nil: no try has left a doubt
	existing, err = backoff.RetryWithData(func() (bool, error) {
		c := &onefold.Commit{Entry: entry}
		err := st.Commit(ctx, []*onefold.Commit{c})
		if err == nil {
			err = c.Err
		}
		switch {
		case err == nil:
			open = nil
			return c.Existing != nil, nil
		case errors.Is(err, onefold.ErrUnknown):
			open = err
			return false, err
		case isAny(err, onefold.ErrClosed, onefold.ErrDamaged):
			return false, backoff.Permanent(err) // no later try can answer either; open keeps the doubt
		case open != nil && isAny(err, onefold.ErrUnavailable, onefold.ErrFull, onefold.ErrBusy, context.Canceled, context.DeadlineExceeded):
			return false, err // says nothing about the earlier try
		}
		open = nil
		return false, backoff.Permanent(err)
	}, backoff.WithContext(retryPolicy(), ctx))
	if open != nil {
		return false, open
	}
	return existing, err
}
