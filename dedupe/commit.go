package dedupe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/onefold-go/onefold"
)

// commit makes entry durable and repeats until its outcome is known, or until some time after the caller
// has gone.
func (r *guarded) commit(caller context.Context, entry onefold.Entry) (Result, error) {
	ctx, cancel := outlive(caller, r.guard.options.CommitTimeout)
	defer cancel()
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(5*time.Millisecond),
		backoff.WithMaxInterval(time.Second), backoff.WithMultiplier(2), backoff.WithMaxElapsedTime(0))
	var open error // the last ErrUnknown; nil: no try has left a doubt
	var existing *onefold.Record
	err := backoff.Retry(func() error {
		c := &onefold.Commit{Claim: r.claim, Entry: entry}
		err := r.guard.store.Commit(ctx, []*onefold.Commit{c})
		if err == nil {
			err, existing = c.Err, c.Existing
		}
		switch {
		case err == nil:
			open = nil
			return nil
		case errors.Is(err, onefold.ErrUnknown):
			open = err
			return err
		case open == nil || settles(err):
			open = nil
			return backoff.Permanent(err)
		case errors.Is(err, onefold.ErrClosed), errors.Is(err, onefold.ErrDamaged):
			return backoff.Permanent(err) // no later try can answer either; open keeps the doubt
		}
		return err
	}, backoff.WithContext(pause, ctx))
	switch {
	case open != nil:
		return Result{}, fmt.Errorf("commit %v: %w", entry.Key, open)
	case err != nil:
		return Result{}, fmt.Errorf("commit %v: %w", entry.Key, err)
	case existing != nil:
		return Result{Executed: true, Record: *existing}, nil
	}
	return Result{Executed: true, Record: r.record(entry)}, nil
}

// settles reports whether err, given to a repeated try, also says what became of the earlier try that
// ended unknown. Errors that only say "this try did nothing" do not.
func settles(err error) bool {
	for _, e := range []error{
		onefold.ErrUnavailable, onefold.ErrFull, onefold.ErrClosed, onefold.ErrDamaged,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}

// record is what the store now holds of entry.
func (r *guarded) record(entry onefold.Entry) onefold.Record {
	unsettled := 0
	for i := range entry.Effects {
		if !entry.Effects[i].Cancel {
			unsettled++
		}
	}
	return onefold.Record{
		Key:         entry.Key,
		Fingerprint: entry.Fingerprint,
		Outcome:     entry.Outcome,
		Result:      entry.Result,
		ResultKept:  true,
		Token:       r.claim.Token,
		At:          r.guard.options.Clock.Wall(),
		Unsettled:   unsettled,
	}
}
