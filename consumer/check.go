package consumer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

// The shortest times that make sense. Anything shorter is a number without its unit more often than a
// choice.
const (
	minAckWait   = 300 * time.Millisecond // the heartbeat can keep up with it
	minLease     = 300 * time.Millisecond // likewise
	minRetention = time.Second
	minDuration  = time.Millisecond

	minRelayWithin = 100 * time.Millisecond
)

// problems collects what is wrong with a Config.
type problems []error

func (p *problems) add(format string, args ...any) {
	*p = append(*p, fmt.Errorf("Config."+format, args...))
}

// check reports every field of c that cannot work. c has its defaults.
func (c Config) check() error {
	var p problems
	p.name("Stream", c.Stream)
	p.name("Name", c.Name)
	p.name("DeadLetterStream", c.DeadLetterStream)
	if len(p) == 0 { // the default subject is made of these names
		if err := onefold.CheckSubject(c.DeadLetterSubject); err != nil {
			p.add("DeadLetterSubject: %w", err)
		}
	}
	c.checkHandler(&p)
	c.checkTogether(&p)
	c.checkNumbers(&p)
	c.checkTimes(&p)
	c.checkStart(&p)
	if err := onefold.CheckSubject(strings.TrimSuffix(c.ReplyPrefix, ".")); err != nil {
		p.add("ReplyPrefix: %w", err)
	}
	for _, f := range c.FilterSubjects {
		if err := checkFilter(f); err != nil {
			p.add("FilterSubjects: %w", err)
		}
	}
	if err := dedupe.CheckSource(c.ID); err != nil {
		p.add("ID: %w", err)
	}
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", onefold.ErrInvalid, errors.Join(p...))
}

// checkTogether reports fields that contradict each other.
func (c Config) checkTogether(p *problems) {
	if c.BindOnly && c.AdoptDurable {
		p.add("BindOnly and AdoptDurable are both set; taking a durable over is noted in it, which BindOnly forbids: leave one out")
	}
	if c.DeadLetterStream == c.Stream && c.Stream != "" {
		p.add("DeadLetterStream is %q, the stream that is read; dead letters need another one", c.Stream)
	}
	if c.Scope == scopeScope {
		p.add("Scope is %q, which onefold uses itself; give another one", c.Scope)
	}
	for i, a := range c.FilterSubjects {
		for _, b := range c.FilterSubjects[:i] {
			if both, ok := overlap(a, b); ok {
				p.add("FilterSubjects has %q and %q, which both select %q; the server takes none that overlap", b, a, both)
			}
		}
	}
}

func (p *problems) name(field, name string) {
	if name == "" {
		p.add("%s is empty; it is required", field)
	} else if strings.ContainsAny(name, " \t\r\n.*>/\\") {
		p.add("%s is %q; JetStream names have no blanks, dots, wildcards or slashes", field, name)
	}
}

func (c Config) checkNumbers(p *problems) {
	for _, n := range []struct {
		field string
		value int
	}{{"Concurrency", c.Concurrency}, {"MaxAttempts", c.MaxAttempts}, {"MaxAckPending", c.MaxAckPending}} {
		if n.value < 0 {
			p.add("%s is %d; leave it 0 for the default or give a positive value", n.field, n.value)
		}
	}
	if c.RateLimit != nil && c.RateLimit.Burst() < 1 && c.RateLimit.Limit() != rate.Inf {
		p.add("RateLimit has a burst of %d; no message could ever start, give it at least 1", c.RateLimit.Burst())
	}
	if c.MaxAckPending > 0 && c.MaxAckPending < c.Concurrency {
		p.add("MaxAckPending is %d and Concurrency %d; the server would never hand out enough messages", c.MaxAckPending, c.Concurrency)
	}
}

func (c Config) checkTimes(p *problems) {
	for _, d := range []struct {
		field        string
		value, least time.Duration
	}{
		{"RetryMin", c.RetryMin, minDuration}, {"RetryMax", c.RetryMax, minDuration}, {"AckWait", c.AckWait, minAckWait},
		{"Lease", c.Lease, minLease}, {"Retention", c.Retention, minRetention}, {"HandlerTimeout", c.HandlerTimeout, minDuration},
		{"RepublishWithin", c.RepublishWithin, minDuration}, {"ShutdownTimeout", c.ShutdownTimeout, minDuration},
		{"LostTimeout", c.LostTimeout, minDuration},
	} {
		// A zero is left only where an adopted consumer decides.
		if d.value != 0 && d.value < d.least {
			p.add("%s is %v; it must be at least %v (is the unit right?), or 0 for the default", d.field, d.value, d.least)
		}
	}
	if c.RelayWithin > 0 && c.RelayWithin < minRelayWithin {
		p.add("RelayWithin is %v; it must be at least %v (is the unit right?), 0 for the default, or negative for no limit", c.RelayWithin, minRelayWithin)
	}
	if c.RetryMin > c.RetryMax {
		p.add("RetryMin is %v and RetryMax %v; RetryMin must not be the longer one", c.RetryMin, c.RetryMax)
	}
	if c.Lease > c.Retention {
		p.add("Lease is %v and Retention %v; a finished key must be remembered for longer than a run may stall", c.Lease, c.Retention)
	}
}

// checkStart reports a start position that contradicts the deliver policy.
func (c Config) checkStart(p *problems) {
	if (c.DeliverPolicy == jetstream.DeliverByStartSequencePolicy) != (c.StartSequence > 0) {
		p.add("StartSequence is %d with DeliverPolicy %v; set both or neither", c.StartSequence, c.DeliverPolicy)
	}
	if (c.DeliverPolicy == jetstream.DeliverByStartTimePolicy) != !c.StartTime.IsZero() {
		p.add("StartTime is %v with DeliverPolicy %v; set both or neither", c.StartTime, c.DeliverPolicy)
	}
}

// checkFilter reports why a filter selects nothing that a stream could hold. Unlike a subject it may have
// wildcards: "*" for one token, ">" for all that follow.
func checkFilter(filter string) error {
	tokens := strings.Split(filter, ".")
	for i, token := range tokens {
		if token == ">" && i < len(tokens)-1 {
			return fmt.Errorf("%q has %q before its last token; it stands for all that follows", filter, token)
		}
	}
	plain := slices.Clone(tokens)
	for i, token := range plain {
		if token == "*" || token == ">" {
			plain[i] = "x"
		}
	}
	if err := onefold.CheckSubject(strings.Join(plain, ".")); err != nil {
		return fmt.Errorf("%q: %w", filter, err)
	}
	return nil
}
