package outbox

import (
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

	// Window is how many rows may be out at once. Default DefaultWindow.
	Window int

	// MaxAttempts is how often a row is refused before it is parked. Only refusals count: a server that
	// is away, slow or full keeps rows waiting, however long. Default DefaultMaxAttempts.
	MaxAttempts int

	// RetryMin and RetryMax bound the growing delay before a row is tried again. Defaults
	// DefaultRetryMin, DefaultRetryMax.
	RetryMin, RetryMax time.Duration

	// PublishTimeout is how long an answer may take before the row is tried again under the same ID. It
	// must be shorter than Lease. Default DefaultPublishTimeout.
	PublishTimeout time.Duration

	// Lease is how long rows stay with this relay after its process has died. Default DefaultFeedLease.
	Lease time.Duration

	// ShutdownTimeout is how long Run waits for answers after its context has ended. Rows without one are
	// given back and sent again later, under the same ID. Default DefaultShutdownTimeout.
	ShutdownTimeout time.Duration

	// SkipParked lets later rows of an ordering key pass a parked one. By default they wait for a person,
	// because passing it would break the order.
	SkipParked bool

	Observer *onefold.Observer // may be nil
	Clock    onefold.Clock
}

// withDefaults returns c with defaults filled in, or the first bad field.
func (c Config) withDefaults() (Config, error) {
	if c.JetStream == nil {
		return c, fmt.Errorf("%w: outbox.Config.JetStream is nil; give the result of jetstream.New", onefold.ErrInvalid)
	}
	for _, n := range []struct {
		field    string
		value    *int
		fallback int
	}{
		{"Window", &c.Window, DefaultWindow},
		{"MaxAttempts", &c.MaxAttempts, DefaultMaxAttempts},
	} {
		if *n.value < 0 {
			return c, badField(n.field, *n.value, n.fallback)
		}
		if *n.value == 0 {
			*n.value = n.fallback
		}
	}
	for _, d := range []struct {
		field    string
		value    *time.Duration
		fallback time.Duration
	}{
		{"RetryMin", &c.RetryMin, DefaultRetryMin},
		{"RetryMax", &c.RetryMax, max(DefaultRetryMax, c.RetryMin)},
		{"PublishTimeout", &c.PublishTimeout, DefaultPublishTimeout},
		{"Lease", &c.Lease, DefaultFeedLease},
		{"ShutdownTimeout", &c.ShutdownTimeout, DefaultShutdownTimeout},
	} {
		if *d.value < 0 {
			return c, badField(d.field, *d.value, d.fallback)
		}
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	if c.RetryMax < c.RetryMin {
		return c, fmt.Errorf("%w: outbox.Config.RetryMax is %v, shorter than RetryMin %v; make it longer",
			onefold.ErrInvalid, c.RetryMax, c.RetryMin)
	}
	if c.PublishTimeout >= c.Lease {
		return c, fmt.Errorf("%w: outbox.Config.PublishTimeout is %v, Lease is %v; rows would be taken over while their answer is awaited, make Lease longer",
			onefold.ErrInvalid, c.PublishTimeout, c.Lease)
	}
	if c.Observer == nil {
		c.Observer = &onefold.Observer{}
	}
	c.Clock = c.Clock.OrSystem()
	return c, nil
}

func badField(field string, value, fallback any) error {
	return fmt.Errorf("%w: outbox.Config.%s is %v; it must be positive, or 0 for %v", onefold.ErrInvalid, field, value, fallback)
}
