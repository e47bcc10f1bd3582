package dedupe

import (
	"context"
	"errors"
	"fmt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
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
	if g.options.Wait > 0 {
		defer g.running.begin(grant.Claim.Key)()
	}
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

		StoreKind: g.store.Info().Kind,
	}}
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.keeper = startKeeper(g, grant.Claim, cancel)
	defer r.keeper.stop()
	return r.untilCommitted(own, ctx)
}

// stage says how far one run has come when it ended. An error means one thing from the function, which may
// have met another store or another claim, and another from the commit of this one.
type stage uint8

const (
	stageRun    stage = iota // the function or its effects failed; nothing was given to the store
	stageCommit              // the commit was tried
)

// untilCommitted repeats run and commit while state moves under them. own ends with the claim, caller
// with the caller.
func (r *guarded) untilCommitted(own, caller context.Context) (Result, error) {
	pause := pace.Conflict()
	for repeats := 0; ; repeats++ {
		result, reached, err := r.once(own, caller)
		if err == nil {
			return result, nil
		}
		if runsAgain(reached, err) && repeats < DefaultConflictRuns {
			if pace.Sleep(own, pause.NextBackOff()) {
				continue
			}
			err = fmt.Errorf("run again after %w: %w", err, own.Err())
		}
		return Result{}, r.fail(caller, reached, err)
	}
}

// runsAgain reports whether another run on the same claim may do better. What the function says of its
// error by marking it permanent, or by panicking with it, goes before what the error wraps.
func runsAgain(reached stage, err error) bool {
	var panicked *onefold.PanicError
	switch {
	case !errors.Is(err, onefold.ErrConflict):
		return false
	case reached == stageCommit:
		return true
	}
	return !onefold.IsPermanent(err) && !errors.As(err, &panicked)
}

// fail ends the claim after err as far as it is still ours, and returns the error for the caller.
func (r *guarded) fail(caller context.Context, reached stage, err error) error {
	if reached == stageCommit && (errors.Is(err, onefold.ErrLost) || errors.Is(err, onefold.ErrUnknown)) {
		return err // the claim is gone, or must stay as it is until its outcome is known
	}
	if r.keeper.lost.Load() {
		return fmt.Errorf("run %v: %w: %w", r.info.Key, onefold.ErrLost, err)
	}
	r.giveBack(caller, err)
	return err
}

// once runs the function with fresh effects and commits them. After a Goexit it gives the claim back
// while the goroutine ends.
func (r *guarded) once(own, caller context.Context) (Result, stage, error) {
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
		return Result{}, stageRun, err
	}
	entry.Fingerprint = r.fp
	entry.Outcome = onefold.Succeeded
	entry.Retain = r.guard.options.Retention
	result, err := r.commit(caller, entry)
	return result, stageCommit, err
}

// giveBack releases the claim. Its own failure is not reported: the claim then ends with its lease, and
// the caller has a better error already.
func (r *guarded) giveBack(caller context.Context, reason error) {
	ctx, cancel := pace.Outlive(caller, r.guard.options.CommitTimeout)
	defer cancel()
	_ = r.guard.store.Release(ctx, r.claim, onefold.Failure{Reason: reason.Error(), Counted: counts(reason)})
}

// counts reports whether a failed run says something about the work, and not about a store or about how
// busy it is.
func counts(err error) bool {
	if onefold.IsPermanent(err) {
		return true
	}
	for _, e := range []error{
		onefold.ErrConflict, onefold.ErrBusy, onefold.ErrUnknown, onefold.ErrFull, onefold.ErrUnavailable, onefold.ErrClosed, onefold.ErrDamaged,
	} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}
