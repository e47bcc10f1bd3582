package outbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// The defaults of Config.
const (
	DefaultWindow          = 1024
	DefaultMaxAttempts     = 20
	DefaultRetryMin        = 100 * time.Millisecond
	DefaultRetryMax        = time.Minute
	DefaultPublishTimeout  = 5 * time.Second
	DefaultFeedLease       = 30 * time.Second
	DefaultShutdownTimeout = 5 * time.Second
)

// Config configures a Relay. JetStream is required.
type Config struct {
	// JetStream is where rows go. Its connection must be one that keeps reconnecting
	// (nats.MaxReconnects(-1)): when it is closed, Run ends with an error.
	JetStream jetstream.JetStream

	// Functions are what handlers may ask to have called, by name. Each has a window of its own, so that a slow
	// one delays neither messages nor the calls of another. A row that names a function which is not here is parked
	// with this reason: register it and Resume the row.
	Functions map[string]Function

	// Window is how many messages may be out at once, and how many calls of each function wait in memory for
	// their turn. Default DefaultWindow.
	Window int

	// MaxAttempts is how often a row is refused before it is parked. Only refusals count: a server that
	// is away, slow or full keeps rows waiting, however long. Default DefaultMaxAttempts.
	MaxAttempts int

	// RetryMin and RetryMax bound the growing delay before a row is tried again. At least 1 ms; defaults
	// DefaultRetryMin, DefaultRetryMax.
	RetryMin, RetryMax time.Duration

	// PublishTimeout is how long an answer may take before the row is tried again under the same ID. It
	// must be at least 1 ms and shorter than Lease. Default DefaultPublishTimeout.
	PublishTimeout time.Duration

	// Lease is how long rows stay with this relay after its process has died. At least 100 ms;
	// default DefaultFeedLease.
	Lease time.Duration

	// ShutdownTimeout is how long Run waits for answers after its context has ended. Rows without one are
	// given back and sent again later, under the same ID. At least 1 ms; default DefaultShutdownTimeout.
	ShutdownTimeout time.Duration

	// SkipParked lets later rows of an ordering key pass a parked one. By default they wait for a person,
	// because passing it would break the order.
	SkipParked bool

	Observer *onefold.Observer // nil: nobody is told
	Clock    onefold.Clock     // zero: the machine's
}

// The shortest times that make sense. Below them the unit is wrong: a plain number is nanoseconds.
const (
	minDuration = time.Millisecond
	minLease    = 100 * time.Millisecond
)

// withDefaults returns c with every zero field at its default.
func (c Config) withDefaults() Config {
	setDefault(&c.Window, DefaultWindow)
	setDefault(&c.MaxAttempts, DefaultMaxAttempts)
	setDefault(&c.RetryMin, DefaultRetryMin)
	setDefault(&c.RetryMax, max(DefaultRetryMax, c.RetryMin))
	setDefault(&c.PublishTimeout, DefaultPublishTimeout)
	setDefault(&c.Lease, DefaultFeedLease)
	setDefault(&c.ShutdownTimeout, DefaultShutdownTimeout)
	c.Functions = functions(c.Functions)
	if c.Observer == nil {
		c.Observer = &onefold.Observer{}
	}
	c.Clock = c.Clock.OrSystem()
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// maxWindow bounds the windows: each place costs memory from the start.
const maxWindow = 1 << 20

// check reports every field of c that cannot work, joined. It expects defaults to be filled in.
func (c Config) check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: outbox.Config."+format, append([]any{onefold.ErrInvalid}, args...)...))
	}
	if c.JetStream == nil {
		bad("JetStream is nil; give the result of jetstream.New")
	}
	for _, n := range []struct {
		field           string
		value, fallback int
	}{
		{"Window", c.Window, DefaultWindow},
		{"MaxAttempts", c.MaxAttempts, DefaultMaxAttempts},
	} {
		if n.value < 0 {
			bad("%s is %d; it must be positive, or 0 for %d", n.field, n.value, n.fallback)
		}
	}
	if c.Window > maxWindow {
		bad("Window is %d; it must be at most %d", c.Window, maxWindow)
	}
	for _, d := range []struct {
		field                  string
		value, fallback, least time.Duration
	}{
		{"RetryMin", c.RetryMin, DefaultRetryMin, minDuration},
		{"RetryMax", c.RetryMax, DefaultRetryMax, minDuration},
		{"PublishTimeout", c.PublishTimeout, DefaultPublishTimeout, minDuration},
		{"Lease", c.Lease, DefaultFeedLease, minLease},
		{"ShutdownTimeout", c.ShutdownTimeout, DefaultShutdownTimeout, minDuration},
	} {
		switch {
		case d.value < 0:
			bad("%s is %v; it must be positive, or 0 for %v", d.field, d.value, d.fallback)
		case d.value < d.least:
			bad("%s is %v; it must be at least %v (is the unit right?)", d.field, d.value, d.least)
		}
	}
	if c.RetryMax >= minDuration && c.RetryMax < c.RetryMin {
		bad("RetryMax is %v, shorter than RetryMin %v; make it longer", c.RetryMax, c.RetryMin)
	}
	if c.Lease >= minLease && c.PublishTimeout >= c.Lease {
		bad("PublishTimeout is %v, Lease is %v; rows would be taken over while their answer is awaited, make Lease longer or PublishTimeout shorter",
			c.PublishTimeout, c.Lease)
	}
	errs = append(errs, checkFunctions(c.Functions, c.Lease))
	return errors.Join(errs...)
}
