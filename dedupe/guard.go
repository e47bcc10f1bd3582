package dedupe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/onefold-go/onefold"
)

// Guard runs work once per ID and commits its effects, for work that does not arrive through a consumer:
// an HTTP request, a command line, a webhook. It is safe for concurrent use and holds nothing that would
// have to be closed.
type Guard struct {
	store   onefold.Store
	options GuardOptions
	limits  onefold.Limits
	process uint64
	attempt atomic.Uint64
	running runs // kept only where duplicates wait
}

// NewGuard returns a Guard that keeps its keys in st. Errors: [onefold.ErrInvalid], naming every bad field.
func NewGuard(st onefold.Store, o GuardOptions) (*Guard, error) {
	o = o.withDefaults()
	err := o.check()
	if st == nil {
		err = errors.Join(fmt.Errorf("%w: guard: the store is nil; open one first", onefold.ErrInvalid), err)
	}
	if err != nil {
		return nil, err
	}
	return &Guard{
		store:   st,
		options: o,
		limits:  onefold.Limits{MaxPayload: o.MaxPayload, MaxEntry: st.Info().MaxEntry},
		process: rand.Uint64(),
	}, nil
}

// Result is how a key ended.
type Result struct {
	// Executed says that this call ran the function. False: the record is of an earlier call.
	Executed bool

	// Record is what is stored. Record.Result is the answer for the caller, Record.Unsettled as of the
	// commit.
	Record onefold.Record
}

// Key is the key that id has here, for [onefold.Store.Lookup] and the like.
func (g *Guard) Key(id string) onefold.Key { return onefold.Key{Scope: g.options.Scope, ID: id} }

// Do runs fn if id is new, and commits its effects together with the mark that id is done. A repeat gets
// the stored result and does not run fn. fp guards against one id for two requests; see
// [BodyFingerprint]; the zero value checks nothing. Blanks around id are trimmed.
//
// While another call runs id, Do returns a [*BusyError], or waits first as GuardOptions.Wait says.
//
// fn may run several times (a conflict, an earlier run cut short, an earlier error); only its effects are
// once. If fn fails nothing is stored, the key is given back, and the next Do with this id runs again. That
// holds for whatever fn returns, the errors of other stores and claims included; only an error that wraps
// [onefold.ErrConflict] and is not marked by [onefold.Permanent] makes fn run again at once, on fresh state.
// A panic of fn is returned as an error, not passed on; a runtime.Goexit ends the goroutine as it would
// without Do, after the key has been given back with [onefold.ErrGoexit] as the reason.
//
// The context of fn carries the values and the end of ctx; it also ends, with the cause
// [onefold.ErrLost], when the claim is lost. The commit does not end with ctx: a client that hangs up must
// not leave an unknown outcome, so it goes on for up to GuardOptions.CommitTimeout after ctx has ended. If
// fn returns nil after ctx has ended, its effects are committed.
//
// Errors: the error of fn as it is, or the first error of buffering effects; [*onefold.PanicError];
// [ErrMissingID]; [*BusyError] ([onefold.ErrBusy]), together with the error of ctx if that has ended while Do
// waited; [*MismatchError] ([onefold.ErrMismatch]); [onefold.ErrConflict] after
// DefaultConflictRuns repeats; [onefold.ErrLost] (the claim went to another, who may have committed);
// [onefold.ErrUnknown] (no answer came before ctx ended; call Do again with the same id to learn it); [onefold.ErrInvalid] (fn is nil); and
// the other errors of [onefold.Store] for Begin and Commit.
func (g *Guard) Do(ctx context.Context, id string, fp onefold.Fingerprint,
	fn func(ctx context.Context, fx *onefold.Effects) error,
) (Result, error) {
	if fn == nil {
		return Result{}, fmt.Errorf("%w: guard: fn is nil; give the function that does the work", onefold.ErrInvalid)
	}
	id, err := CheckID(id)
	if err != nil {
		return Result{}, fmt.Errorf("guard: id is blank; give what the caller keeps stable over its retries: %w", err)
	}
	key := g.Key(id)
	grant, err := g.begin(ctx, onefold.Request{
		Key:         key,
		Fingerprint: fp,
		Lease:       g.options.Lease,
		Holder:      onefold.Holder{Process: g.process, Attempt: g.attempt.Add(1)},
	})
	if err != nil {
		return Result{}, err
	}
	switch grant.Verdict {
	case onefold.Granted:
		return g.run(ctx, grant, fp, fn)
	case onefold.Done:
		return Result{Record: *grant.Record}, nil
	case onefold.Busy:
		return Result{}, &BusyError{Key: key, RetryAfter: grant.RetryAfter}
	case onefold.Mismatch:
		return Result{}, &MismatchError{Key: key, Stored: grant.Held, Given: fp}
	}
	return Result{}, fmt.Errorf("claim %v: %w: the store answered with verdict %d", key, onefold.ErrUnsupported, grant.Verdict)
}
