package dedupe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/safecall"
)

// guarded is one granted claim on its way to a commit or back.
type guarded struct {
	guard  *Guard
	claim  *onefold.Claim
	keeper *keeper
	info   onefold.RunInfo
	fp     onefold.Fingerprint
	fn     func(ctx context.Context, fx *onefold.Effects) error
}

// run carries a granted claim to its end. The keeper renews the lease until that end and is waited for.
func (g *Guard) run(ctx context.Context, grant onefold.Grant, fp onefold.Fingerprint,
	fn func(ctx context.Context, fx *onefold.Effects) error,
) (Result, error) {
	first := grant.History.First
	if first.IsZero() {
		first = g.options.Clock.Wall()
	}
	r := &guarded{guard: g, claim: grant.Claim, fp: fp, fn: fn, info: onefold.RunInfo{
		Key:     grant.Claim.Key,
		Attempt: grant.History.Failures + 1,
		Token:   grant.Claim.Token,
		First:   first,
		Limits:  g.limits,
	}}
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.keeper = startKeeper(g, grant.Claim, cancel)
	defer r.keeper.stop()
	return r.untilCommitted(own, ctx)
}

// untilCommitted repeats run and commit while state moves under them. own ends with the claim, caller
// with the caller.
func (r *guarded) untilCommitted(own, caller context.Context) (Result, error) {
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(2*time.Millisecond),
		backoff.WithMaxInterval(500*time.Millisecond), backoff.WithMultiplier(2), backoff.WithMaxElapsedTime(0))
	var result Result
	err := backoff.Retry(func() error {
		var err error
		result, err = r.once(own, caller)
		if errors.Is(err, onefold.ErrConflict) {
			return err
		}
		if err != nil {
			return backoff.Permanent(err)
		}
		return nil
	}, backoff.WithContext(backoff.WithMaxRetries(pause, DefaultConflictRuns), own))
	switch {
	case err == nil:
		return result, nil
	case errors.Is(err, onefold.ErrLost), errors.Is(err, onefold.ErrUnknown):
		return Result{}, err // the claim is gone, or must stay as it is until its outcome is known
	}
	if r.keeper.lost.Load() {
		return Result{}, fmt.Errorf("run %v: %w: %w", r.info.Key, onefold.ErrLost, err)
	}
	r.giveBack(caller, err)
	return Result{}, err
}

// once runs the function with fresh effects and commits them. After a Goexit it gives the claim back
// while the goroutine ends.
func (r *guarded) once(own, caller context.Context) (Result, error) {
	fx := onefold.NewEffects(r.info, r.guard.store)
	var call safecall.Call
	defer func() {
		if call.Goexit() {
			_, _ = fx.Seal()
			r.giveBack(caller, onefold.ErrGoexit)
		}
	}()
	err := call.Do(func() error { return r.fn(own, fx) })
	entry, buffering := fx.Seal()
	if err == nil {
		err = buffering
	}
	if err != nil {
		return Result{}, err
	}
	entry.Fingerprint = r.fp
	entry.Outcome = onefold.Succeeded
	entry.Retain = r.guard.options.Retention
	return r.commit(caller, entry)
}

// giveBack releases the claim. Its own failure is not reported: the claim then ends with its lease, and
// the caller has a better error already.
func (r *guarded) giveBack(caller context.Context, reason error) {
	ctx, cancel := outlive(caller, r.guard.options.CommitTimeout)
	defer cancel()
	_ = r.guard.store.Release(ctx, r.claim, onefold.Failure{Reason: reason.Error(), Counted: counts(reason)})
}

// counts reports whether a failed run says something about the work, and not about the store or about
// how busy it is.
func counts(err error) bool {
	for _, e := range []error{onefold.ErrConflict, onefold.ErrFull, onefold.ErrUnavailable, onefold.ErrClosed, onefold.ErrDamaged} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}

// outlive returns a context with the values of ctx that ends grace after ctx has ended.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return own, func() {
		stop()
		cancel()
	}
}
