package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/onefold-go/onefold"
)

// Function is a Go function that handlers ask for by name, with [onefold.Effects.Call] or
// [onefold.Effects.CallOnce]. Do is required. Its functions may be called from several goroutines at once, and must
// return soon after their context has ended: a call is over when Do has returned, and not before.
type Function struct {
	// Do makes the call; [JSON] makes one that takes a decoded payload. The row ends when it returns nil. What else it
	// returns decides what follows:
	//
	//	onefold.Permanent        parked at once
	//	onefold.RetryAfter       called again no sooner than that; the attempt counts. It says that nothing has
	//	                         happened.
	//	onefold.ErrUnavailable   what it calls is away and nothing has happened: called again later, however long;
	//	                         uses up no attempt. Asked for with CallOnce it is like any other, because a store
	//	                         that the function has used says the same: return RetryAfter
	//	any other, a panic, runtime.Goexit, an end of its context
	//	                         a refused attempt: called again after a growing delay, parked after
	//	                         Config.MaxAttempts
	//
	// A call that was asked for with CallOnce may have happened in the last case. Probe is asked then, and it is
	// called again only if it has not happened. Without a Probe it is parked.
	Do func(ctx context.Context, c Call) error

	// Probe tells whether a call with this idempotency key has happened. It is asked about calls of CallOnce whose
	// outcome is not known: after an error, and after a crash between the announcement of a call and the record of
	// its end. It must answer ProbeUnknown as long as a call that was made earlier can still arrive where it was
	// sent. After an error it is asked again, in all three times. May be nil: nobody knows.
	Probe func(ctx context.Context, key string) (ProbeResult, error)

	// Timeout is when the context of Do, and of each question to Probe, ends. At least 1 ms and shorter than
	// Config.Lease. Default DefaultCallTimeout.
	Timeout time.Duration

	// Window is how many calls of this function may be under way at once. Default DefaultCallWindow.
	Window int
}

// The defaults of Function.
const (
	DefaultCallTimeout = 10 * time.Second
	DefaultCallWindow  = 16
)

// Call is what a registered function is given.
type Call struct {
	Name    string         // what it is registered under
	Key     string         // idempotency key: what the row leaves under (onefold.Row.LeavesAs), the same in each call of it and in a rerun of its handler
	Payload []byte         // what the handler gave; the function may keep it
	Header  onefold.Header // of the effect
	Attempt int            // 1 for the first; calls that were cut short are counted, too
	Source  onefold.Key    // the work whose handler has asked for the call
}

// ProbeResult is what is known of an earlier call.
type ProbeResult uint8

// The answers of a probe.
const (
	ProbeUnknown     ProbeResult = iota // it may have happened: the row is parked for a person
	ProbeHappened                       // the row ends as if the call had returned nil
	ProbeNotHappened                    // and it never will: it is called (again)
)

// String names the answer.
func (r ProbeResult) String() string {
	switch r {
	case ProbeHappened:
		return "happened"
	case ProbeNotHappened:
		return "not happened"
	}
	return "unknown"
}

// ErrStillCalling reports that Run has returned while functions ignore the end of their context. What they still do
// is not recorded; their rows come again.
var ErrStillCalling = errors.New("outbox: functions ignore the end of their context")

// withDefaults returns f with zero fields at their defaults.
func (f Function) withDefaults() Function {
	setDefault(&f.Timeout, DefaultCallTimeout)
	setDefault(&f.Window, DefaultCallWindow)
	return f
}

// check reports what cannot work, joined. lease is that of the relay.
func (f Function) check(name string, lease time.Duration) error {
	var errs []error
	bad := func(format string, args ...any) {
		at := []any{onefold.ErrInvalid, name}
		errs = append(errs, fmt.Errorf("%w: outbox.Config.Functions[%q]"+format, append(at, args...)...))
	}
	if err := onefold.CheckCallName(name); err != nil {
		bad(": %w", err)
	}
	if f.Do == nil {
		bad(".Do is nil; give the function to call")
	}
	switch {
	case f.Timeout < 0:
		bad(".Timeout is %v; it must be positive, or 0 for %v", f.Timeout, DefaultCallTimeout)
	case f.Timeout < minDuration:
		bad(".Timeout is %v; it must be at least %v (is the unit right?)", f.Timeout, minDuration)
	case lease >= minLease && f.Timeout >= lease:
		bad(".Timeout is %v, Lease is %v; rows would be taken over while they are called, make Lease longer or Timeout shorter", f.Timeout, lease)
	}
	if f.Window < 0 {
		bad(".Window is %d; it must be positive, or 0 for %d", f.Window, DefaultCallWindow)
	}
	if f.Window > maxWindow {
		bad(".Window is %d; it must be at most %d", f.Window, maxWindow)
	}
	return errors.Join(errs...)
}

// functions returns a copy of all with defaults filled in.
func functions(all map[string]Function) map[string]Function {
	own := make(map[string]Function, len(all))
	for name, f := range all {
		own[name] = f.withDefaults()
	}
	return own
}

// checkFunctions reports what cannot work in all, in the order of names.
func checkFunctions(all map[string]Function, lease time.Duration) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		errs = append(errs, all[name].check(name, lease))
	}
	return errors.Join(errs...)
}
