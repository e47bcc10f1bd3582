package dedupe

import (
	"errors"
	"fmt"
	"strings"
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

// The shortest times that make sense. Below them the unit is wrong: a plain number is nanoseconds.
const (
	minLease         = 100 * time.Millisecond
	minRetention     = time.Second
	minCommitTimeout = time.Millisecond
	minWait          = time.Millisecond
)

// GuardOptions configures a Guard. Scope is required.
type GuardOptions struct {
	// Scope separates this guard's keys from all others in the store. Two guards with one scope share
	// their keys.
	Scope string

	// Lease is how long the key stays claimed after this process has died. It is renewed every third of
	// it. At least 100 ms; default DefaultLease.
	Lease time.Duration

	// Retention is how long a repeat is known and answered from the stored result, counted from the
	// commit. At least 1 s and not shorter than Lease; default DefaultRetention, or Lease if that is longer.
	Retention time.Duration

	// CommitTimeout is how long a commit, or giving the key back, goes on after the caller's context has
	// ended. At least 1 ms; default DefaultCommitTimeout.
	CommitTimeout time.Duration

	// Wait is how long Do waits for another run of its id before it answers [onefold.ErrBusy]. When that run has
	// committed within the time, its stored result is returned; when it has failed, one of those who wait runs in
	// its place. The end of a run of the same Guard is noticed at once, of another one within a second. Zero:
	// Do does not wait; [NoLimit]: as long as its context lasts. At least 1 ms. A function that calls Do with
	// the id that it runs under waits for itself.
	Wait time.Duration

	// MaxPayload is the largest message that effects may hold, in bytes with headers. Default
	// [onefold.DefaultMaxPayload].
	MaxPayload int

	Clock onefold.Clock // zero: the machine's
}

// withDefaults returns o with every zero field at its default.
func (o GuardOptions) withDefaults() GuardOptions {
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.Retention == 0 {
		o.Retention = max(DefaultRetention, o.Lease)
	}
	if o.CommitTimeout == 0 {
		o.CommitTimeout = DefaultCommitTimeout
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = onefold.DefaultMaxPayload
	}
	o.Clock = o.Clock.OrSystem()
	return o
}

// check reports every field of o that cannot work, joined. It expects defaults to be filled in.
func (o GuardOptions) check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: GuardOptions."+format, append([]any{onefold.ErrInvalid}, args...)...))
	}
	if strings.Trim(o.Scope, blanks) == "" {
		bad("Scope is %q; name what the guard is for", o.Scope)
	}
	for _, d := range []struct {
		field           string
		value, fallback time.Duration
		least           time.Duration
	}{
		{"Lease", o.Lease, DefaultLease, minLease},
		{"Retention", o.Retention, DefaultRetention, minRetention},
		{"CommitTimeout", o.CommitTimeout, DefaultCommitTimeout, minCommitTimeout},
	} {
		switch {
		case d.value < 0:
			bad("%s is %v; it must be positive, or 0 for %v", d.field, d.value, d.fallback)
		case d.value < d.least:
			bad("%s is %v; it must be at least %v (is the unit right?)", d.field, d.value, d.least)
		}
	}
	if o.Wait < 0 || o.Wait > 0 && o.Wait < minWait {
		bad("Wait is %v; it must be at least %v (is the unit right?), or 0 for no waiting", o.Wait, minWait)
	}
	if o.Retention >= minRetention && o.Retention < o.Lease {
		bad("Retention is %v, shorter than Lease %v; make it longer, or a repeat finds nothing while its first run could still hold the key",
			o.Retention, o.Lease)
	}
	if o.MaxPayload < 0 {
		bad("MaxPayload is %d; it must be positive, or 0 for %d", o.MaxPayload, onefold.DefaultMaxPayload)
	}
	return errors.Join(errs...)
}
