package dedupe

import (
	"context"
	"fmt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/commit"
	"github.com/onefold-go/onefold/internal/pace"
)

// commit makes entry durable and repeats until its outcome is known, or until some time after the caller
// has gone.
func (r *guarded) commit(caller context.Context, entry onefold.Entry) (Result, error) {
	ctx, cancel := pace.Outlive(caller, r.guard.options.CommitTimeout)
	defer cancel()
	c := &onefold.Commit{Claim: r.claim, Entry: entry}
	if err := commit.UntilKnown(ctx, r.guard.store, c); err != nil {
		return Result{}, fmt.Errorf("commit %v: %w", entry.Key, err)
	}
	if c.Existing != nil {
		return Result{Executed: true, Record: *c.Existing}, nil
	}
	return Result{Executed: true, Record: r.record(entry)}, nil
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
