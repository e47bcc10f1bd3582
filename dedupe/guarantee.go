package dedupe

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/onefold-go/onefold"
)

// Setup is everything that the guarantee of a consumer depends on: its own settings, and those of the stream, the
// durable and the store as they are found. [Assess] judges it.
type Setup struct {
	Name string // of the consumer, for the report

	Concurrency        int           // handlers at once
	MaxAttempts        int           // runs before a dead letter
	RetryMin, RetryMax time.Duration // delay between them: doubles from one to the other
	Lease              time.Duration // of a claim
	Retention          time.Duration // of the record of a finished key
	RepublishWithin    time.Duration // longest time after which a producer or a person publishes an ID again; 0: not said

	AckWait       time.Duration // of the durable
	MaxDeliver    int           // of the durable; 0 and less: no limit
	BackOff       int           // how many delays of its own the durable has
	MaxAckPending int           // of the durable; 0 and less: no limit

	MaxAge          time.Duration // of the stream; 0: none
	DuplicateWindow time.Duration // of the stream
	Replicas        int           // of the stream
	InMemory        bool          // the stream is kept in memory
	DropsOld        bool          // the stream makes room by dropping its oldest messages

	StoreDurable bool // a returned commit survives power loss
	StoreShared  bool // several processes use the store
}

// Finding is one thing that a setup breaks or weakens.
type Finding struct {
	Breaks bool   // the promise does not hold; else it is weaker than it could be
	Text   string // the setting, its value, what follows, and the remedy
}

// Guarantee is what a setup promises.
type Guarantee struct {
	Setup    Setup
	Findings []Finding // what breaks the promise comes first
}

// Times and rates that a report counts with.
const (
	shortAckWait   = time.Second
	nominalCommit  = 5 * time.Millisecond // of a slow disk
	nominalTrip    = time.Millisecond     // to the server and back
	retentionAcks  = 2                    // a lost ack, and the ack of the copy
	horizonMaximum = time.Duration(math.MaxInt64)
)

// RetryHorizon is the time after which a message that always fails has used up its attempts, running times not
// counted: the sum of RetryMin, doubled with each attempt up to RetryMax, over all attempts but the last.
func (s Setup) RetryHorizon() time.Duration {
	total, delay, left := time.Duration(0), s.RetryMin, s.MaxAttempts-1
	for ; left > 0 && 0 < delay && delay < s.RetryMax; left-- {
		total += delay
		delay *= 2
	}
	if left > 0 && s.RetryMax > (horizonMaximum-total)/time.Duration(left) {
		return horizonMaximum
	}
	return total + time.Duration(max(left, 0))*s.RetryMax
}

// RateCeiling is how many messages a second MaxAckPending allows: it must cover all that is under way for two
// commits (a message may just miss one) and a round trip. It counts with a commit of 5 ms and a round trip of 1 ms.
// Without a limit it is 0.
func (s Setup) RateCeiling() int {
	if s.MaxAckPending <= 0 {
		return 0
	}
	return int(float64(s.MaxAckPending) / (2*nominalCommit + nominalTrip).Seconds())
}

// Assess judges a setup. It is a pure function; docs/guarantees.md has its rules.
func Assess(s Setup) Guarantee {
	g := Guarantee{Setup: s}
	g.assessBreaks()
	g.assessWeak()
	return g
}

func (g *Guarantee) add(breaks bool, format string, args ...any) {
	g.Findings = append(g.Findings, Finding{breaks, fmt.Sprintf(format, args...)})
}

func (g *Guarantee) assessBreaks() {
	s := &g.Setup
	if s.MaxDeliver > 0 {
		g.add(true, "MaxDeliver of the durable is %d: the server gives up after that many deliveries, whether a handler has run or not; set it to -1, attempts are counted here",
			s.MaxDeliver)
	}
	if s.BackOff > 0 {
		g.add(true, "BackOff of the durable has %d delays: they take the place of AckWait, and messages come again while they are handled; remove it", s.BackOff)
	}
	if least := retentionAcks * s.AckWait; s.Retention < least {
		g.add(true, "Retention is %v and AckWait %v: a message whose ack is lost would come again after its key is forgotten; raise Retention to at least %v",
			s.Retention, s.AckWait, least)
	}
	if s.RepublishWithin > s.Retention {
		g.add(true, "RepublishWithin is %v and Retention %v: a copy that is published in between runs again; raise Retention to at least %v",
			s.RepublishWithin, s.Retention, s.RepublishWithin)
	}
	if s.MaxAckPending > 0 && s.MaxAckPending < s.Concurrency {
		g.add(true, "MaxAckPending is %d and Concurrency %d: the server would never hand out enough messages; raise MaxAckPending", s.MaxAckPending, s.Concurrency)
	}
}

func (g *Guarantee) assessWeak() {
	s := &g.Setup
	if s.AckWait < shortAckWait {
		g.add(false, "AckWait is %v: below %v a short stall makes messages come again (is the unit right?)", s.AckWait, shortAckWait)
	}
	if s.Retention < s.DuplicateWindow {
		g.add(false, "Retention is %v and the duplicate window of the stream %v: whoever relies on the window publishes again after the key is forgotten; raise Retention to at least %v",
			s.Retention, s.DuplicateWindow, s.DuplicateWindow)
	}
	if horizon := s.RetryHorizon(); s.MaxAge > 0 && s.MaxAge < horizon {
		g.add(false, "MaxAge of the stream is %v and %d attempts take %v: a failing message is removed before it becomes a dead letter; raise MaxAge, or lower MaxAttempts or RetryMax",
			s.MaxAge, s.MaxAttempts, horizon)
	}
	if s.DropsOld {
		g.add(false, "the stream drops its oldest messages at a limit, handled or not: use discard policy new, or remove the limit")
	}
	if s.InMemory {
		g.add(false, "the stream is kept in memory: what is not handled when the server restarts is gone; use file storage")
	}
	if s.Replicas <= 1 {
		g.add(false, "the stream has one replica: its disk is a part of the promise, and so is sync_interval of the server")
	}
	if !s.StoreDurable {
		g.add(false, "the store does not survive the process: everything that was done is forgotten with it; use boltstore")
	}
	if s.StoreShared && s.Lease > s.AckWait {
		g.add(false, "Lease is %v and AckWait %v: the message of a process that died comes again after AckWait and waits for the lease to end; lower Lease to at most %v",
			s.Lease, s.AckWait, s.AckWait)
	}
}

// Err is nil if the promise holds, and else names everything that breaks it. It wraps [onefold.ErrInvalid].
func (g Guarantee) Err() error {
	var errs []error
	for _, f := range g.Findings {
		if f.Breaks {
			errs = append(errs, errors.New(f.Text))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", onefold.ErrInvalid, errors.Join(errs...))
}

// String is a report for an operator: what is promised with these settings, and what breaks or weakens it.
func (g Guarantee) String() string {
	s := &g.Setup
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s", s.Name)
	line("  the effects of a message are applied once, if its copies come within %v after its end", s.Retention)
	line("  a redelivery of a stream message that was acked is answered for as long as the store lives")
	line("  after a crash a message comes again within %v", g.recovery())
	line("  a failing message is tried %d times within %v, and then is a dead letter", s.MaxAttempts, s.RetryHorizon().Round(time.Second))
	if ceiling := s.RateCeiling(); ceiling > 0 {
		line("  MaxAckPending %d allows about %d messages/s if a commit takes %v", s.MaxAckPending, ceiling, nominalCommit)
	}
	for _, f := range g.Findings {
		if f.Breaks {
			line("  BROKEN: %s", f.Text)
		} else {
			line("  weaker: %s", f.Text)
		}
	}
	return b.String()
}

// recovery is the time until the message of a process that died may run again. The claims of a store that one process
// owns die with it.
func (g Guarantee) recovery() time.Duration {
	if g.Setup.StoreShared {
		return max(g.Setup.AckWait, g.Setup.Lease)
	}
	return g.Setup.AckWait
}
