package dedupe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/onefold-go/onefold"
)

// The defaults of GuardOptions, and how often a run that met a conflict is repeated.
const (
	DefaultLease         = 30 * time.Second
	DefaultRetention     = 24 * time.Hour
	DefaultCommitTimeout = 10 * time.Second
	DefaultConflictRuns  = 10
)

// GuardOptions configures a Guard. Scope is required.
type GuardOptions struct {
	// Scope separates this guard's keys from all others in the store. Two guards with one scope share
	// their keys.
	Scope string

	// Lease is how long the key stays claimed after this process has died. It is renewed every third of
	// it. Default DefaultLease.
	Lease time.Duration

	// Retention is how long a repeat is known and answered from the stored result, counted from the
	// commit. Default DefaultRetention.
	Retention time.Duration

	// CommitTimeout is how long a commit, or giving the key back, goes on after the caller's context has
	// ended. Default DefaultCommitTimeout.
	CommitTimeout time.Duration

	// MaxPayload is the largest message that effects may hold, in bytes with headers. Default
	// [onefold.DefaultMaxPayload].
	MaxPayload int

	Clock onefold.Clock
}

// Guard runs work once per ID and commits its effects, for work that does not arrive through a consumer:
// an HTTP request, a command line, a webhook. It is safe for concurrent use and holds nothing that would
// have to be closed.
type Guard struct {
	store   onefold.Store
	options GuardOptions
	limits  onefold.Limits
	process uint64
	attempt atomic.Uint64
}

// NewGuard returns a Guard that keeps its keys in st. Errors: [onefold.ErrInvalid], naming the field.
func NewGuard(st onefold.Store, o GuardOptions) (*Guard, error) {
	if st == nil {
		return nil, fmt.Errorf("%w: guard: the store is nil; open one first", onefold.ErrInvalid)
	}
	if strings.Trim(o.Scope, blanks) == "" {
		return nil, fmt.Errorf("%w: GuardOptions.Scope is %q; name what the guard is for", onefold.ErrInvalid, o.Scope)
	}
	for _, d := range []struct {
		field    string
		value    *time.Duration
		fallback time.Duration
	}{
		{"Lease", &o.Lease, DefaultLease},
		{"Retention", &o.Retention, DefaultRetention},
		{"CommitTimeout", &o.CommitTimeout, DefaultCommitTimeout},
	} {
		if *d.value < 0 {
			return nil, fmt.Errorf("%w: GuardOptions.%s is %v; it must be positive, or 0 for %v",
				onefold.ErrInvalid, d.field, *d.value, d.fallback)
		}
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	if o.MaxPayload < 0 {
		return nil, fmt.Errorf("%w: GuardOptions.MaxPayload is %d; it must be positive, or 0 for %d",
			onefold.ErrInvalid, o.MaxPayload, onefold.DefaultMaxPayload)
	}
	o.Clock = o.Clock.OrSystem()
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
// fn may run several times (a conflict, an earlier run cut short, an earlier error); only its effects are
// once. If fn fails nothing is stored, the key is given back, and the next Do with this id runs again.
// A panic of fn is returned as an error, not passed on; a runtime.Goexit ends the goroutine as it would
// without Do, after the key has been given back.
//
// The context of fn carries the values and the end of ctx; it also ends, with the cause
// [onefold.ErrLost], when the claim is lost. The commit does not end with ctx: a client that hangs up must
// not leave an unknown outcome, so it goes on for up to GuardOptions.CommitTimeout after ctx has ended. If
// fn returns nil after ctx has ended, its effects are committed.
//
// Errors: the error of fn, or the first error of buffering effects; *onefold.PanicError; ErrMissingID;
// *BusyError ([onefold.ErrBusy]); *MismatchError ([onefold.ErrMismatch]); [onefold.ErrConflict] after
// DefaultConflictRuns repeats; [onefold.ErrLost] (the claim went to another, who may have committed);
// [onefold.ErrUnknown] (no answer came before ctx ended; call Do again with the same id to learn it); and
// the other errors of [onefold.Store] for Begin and Commit.
func (g *Guard) Do(ctx context.Context, id string, fp onefold.Fingerprint,
	fn func(ctx context.Context, fx *onefold.Effects) error,
) (Result, error) {
	id, err := CheckID(id)
	if err != nil {
		return Result{}, err
	}
	key := g.Key(id)
	grant, err := g.store.Begin(ctx, onefold.Request{
		Key:         key,
		Fingerprint: fp,
		Lease:       g.options.Lease,
		Holder:      onefold.Holder{Process: g.process, Attempt: g.attempt.Add(1)},
	})
	if err != nil {
		return Result{}, fmt.Errorf("claim %v: %w", key, err)
	}
	switch grant.Verdict {
	case onefold.Granted:
		return g.run(ctx, grant, fp, fn)
	case onefold.Done:
		return Result{Record: *grant.Record}, nil
	case onefold.Busy:
		return Result{}, &BusyError{Key: key, RetryAfter: grant.RetryAfter}
	case onefold.Mismatch:
		mismatch := &MismatchError{Key: key, Given: fp}
		if grant.Record != nil {
			mismatch.Stored = grant.Record.Fingerprint
		}
		return Result{}, mismatch
	}
	return Result{}, fmt.Errorf("claim %v: %w: the store answered with verdict %d", key, onefold.ErrUnsupported, grant.Verdict)
}
