package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/commit"
	"github.com/onefold-go/onefold/internal/pace"
)

// DefaultEnqueueRetention is how long Enqueue knows a key if retain is 0.
const DefaultEnqueueRetention = 24 * time.Hour

// DefaultEnqueueRuns is how often Enqueue repeats build after a conflict.
const DefaultEnqueueRuns = 10

// minRetention is the shortest retention that makes sense; below it the unit is wrong.
const minRetention = time.Second

// Enqueue commits what build asks for, outside any handler and once per key: a relay sends it after
// Enqueue has returned, even if this process dies then. There is no claim, so build must do nothing but
// ask for effects; it runs again if state that it has read moves, which is when the commit is refused with
// [onefold.ErrConflict] or build returns one that is not marked by [onefold.Permanent]. The Effects of build
// know no first attempt (First is zero).
//
// A message may have [onefold.DefaultMaxPayload] bytes with its headers: Enqueue does not know the server.
// Where the server takes less, the relay parks what is too large. All together must fit Info.MaxEntry of the
// store.
//
// retain is how long the key is remembered from the commit on: at least 1 s, or 0 for
// DefaultEnqueueRetention. After that the same key is sent again.
//
// existing is true if the key held the same effects already, which is success: they were or will be sent
// once. It may also be true if an earlier try of this very call was stored and its answer was lost.
//
// Errors: the error of build, or the first error of buffering; [onefold.ErrMismatch] (the key holds other
// effects; times not to be sent before are not compared); [onefold.ErrBusy] (the key is being run
// elsewhere); [onefold.ErrConflict] after DefaultEnqueueRuns repeats; [onefold.ErrUnknown] (no answer came
// before ctx ended: call again with the same key); [onefold.ErrInvalid] (an argument, or build asked for
// nothing), and the other errors of [onefold.Store] for Commit.
func Enqueue(ctx context.Context, st onefold.Store, key onefold.Key, retain time.Duration,
	build func(fx *onefold.Effects) error,
) (existing bool, err error) {
	if err = checkEnqueue(st, key, retain, build); err != nil {
		return false, err
	}
	if retain == 0 {
		retain = DefaultEnqueueRetention
	}
	pause := pace.Conflict()
	for repeats := 0; ; repeats++ {
		existing, tried, err := enqueueOnce(ctx, st, key, retain, build)
		if err == nil {
			return existing, nil
		}
		if errors.Is(err, onefold.ErrConflict) && !onefold.IsPermanent(err) && repeats < DefaultEnqueueRuns {
			if pace.Sleep(ctx, pause.NextBackOff()) {
				continue
			}
			err = fmt.Errorf("run again after %w: %w", err, ctx.Err())
		}
		return false, explain(key, tried, err)
	}
}

// explain names the key once, which stores often do themselves, and what to do. An error of build is its
// own: whatever it wraps says nothing of this key.
func explain(key onefold.Key, tried bool, err error) error {
	what := "enqueue"
	if shown := key.String(); !strings.Contains(err.Error(), shown) {
		what += " " + shown
	}
	remedy := ""
	switch {
	case !tried:
	case errors.Is(err, onefold.ErrMismatch):
		remedy = "; the key holds other effects: use another ID for other work"
	case errors.Is(err, onefold.ErrBusy):
		remedy = "; the key is being run: enqueue again when that has ended"
	case errors.Is(err, onefold.ErrUnknown):
		remedy = "; it may be stored: enqueue again with the same key and effects"
	}
	return fmt.Errorf("%s: %w%s", what, err, remedy)
}

// checkEnqueue reports all arguments that cannot work, joined.
func checkEnqueue(st onefold.Store, key onefold.Key, retain time.Duration, build func(*onefold.Effects) error) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: enqueue: "+format, append([]any{onefold.ErrInvalid}, args...)...))
	}
	if st == nil {
		bad("the store is nil; open one first")
	}
	if build == nil {
		bad("build is nil; give the function that asks for effects")
	}
	if key.Scope == "" {
		bad("Key.Scope is empty; name what the key belongs to")
	}
	if strings.TrimSpace(key.ID) == "" {
		bad("Key.ID is %q; give the ID that a repeat would have", key.ID)
	}
	switch {
	case retain < 0:
		bad("retain is %v; it must be positive, or 0 for %v", retain, DefaultEnqueueRetention)
	case retain > 0 && retain < minRetention:
		bad("retain is %v; it must be at least %v, or 0 for %v (is the unit right?)", retain, minRetention, DefaultEnqueueRetention)
	}
	return errors.Join(errs...)
}

// enqueueOnce builds one entry and commits it. tried says that err is the commit's, and not build's.
func enqueueOnce(ctx context.Context, st onefold.Store, key onefold.Key, retain time.Duration,
	build func(fx *onefold.Effects) error,
) (existing, tried bool, err error) {
	fx := onefold.NewEffects(onefold.RunInfo{
		Key: key, Attempt: 1, Limits: onefold.Limits{MaxEntry: st.Info().MaxEntry}, StoreKind: st.Info().Kind,
	}, st)
	err = build(fx)
	entry, buffering := fx.Seal()
	if err == nil {
		err = buffering
	}
	if err == nil && len(entry.Effects) == 0 && len(entry.Writes) == 0 && len(entry.Joins) == 0 && entry.Result == nil {
		err = fmt.Errorf("%w: build asked for nothing; publish a message, write state or set a result, or do not call Enqueue",
			onefold.ErrInvalid)
	}
	if err != nil {
		return false, false, err
	}
	entry.Fingerprint = fingerprintOf(&entry)
	entry.Outcome = onefold.Succeeded
	entry.Retain = retain
	c := &onefold.Commit{Entry: entry}
	err = commit.UntilKnown(ctx, st, c)
	return c.Existing != nil, true, err
}
