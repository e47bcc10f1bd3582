package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// capture says if a stream takes the subject of a row. It matters only when no stream answered.
type capture uint8

const (
	captureUnknown capture = iota // JetStream did not say
	captured
	notCaptured
)

const (
	captureLife = time.Second // how long an answer counts: a new stream is noticed that late
	maxCaptures = 4096        // subjects remembered at once

	// silenceFactor times the timeout is how long JetStream is not asked after it has not answered, so that
	// the goroutine that settles spends most of its time settling.
	silenceFactor = 4
)

// captures remembers for a short time which subjects a stream takes. It belongs to one goroutine.
type captures struct {
	timeout time.Duration // of all questions of one batch together
	now     func() time.Duration
	ask     func(ctx context.Context, subject string) capture

	known       map[string]knownCapture
	silentUntil time.Duration // JetStream is not asked before
}

type knownCapture struct {
	capture capture
	until   time.Duration
}

// learn asks about the subjects of answers that depend on it, as far as they are not known. All of them
// share one deadline; the first that gets no answer ends the questions.
func (c *captures) learn(ctx context.Context, answers []answer) {
	var asking context.Context // made for the first question: most batches have none
	for i := range answers {
		if !nobodyAnswered(answers[i].err) && !timedOut(answers[i].err) || answers[i].call != nil || !c.wanted(answers[i].row.Effect.Target) {
			continue
		}
		if asking == nil {
			var cancel context.CancelFunc
			asking, cancel = context.WithTimeout(ctx, c.timeout)
			defer cancel()
		}
		subject := answers[i].row.Effect.Target
		c.note(subject, c.ask(asking, subject))
	}
}

// wanted reports whether subject is to be asked about now.
func (c *captures) wanted(subject string) bool {
	now := c.now()
	k, ok := c.known[subject]
	return now >= c.silentUntil && (!ok || now >= k.until)
}

// note keeps an answer.
func (c *captures) note(subject string, answer capture) {
	now := c.now()
	if answer == captureUnknown {
		c.silentUntil = now + silenceFactor*c.timeout
		return
	}
	if c.known == nil || len(c.known) >= maxCaptures {
		c.known = map[string]knownCapture{} // forgetting costs a question
	}
	c.known[subject] = knownCapture{answer, now + captureLife}
}

// of is what is known about subject.
func (c *captures) of(subject string) capture {
	if k, ok := c.known[subject]; ok && c.now() < k.until {
		return k.capture
	}
	return captureUnknown
}

// captureOf asks JetStream if some stream takes subject.
func captureOf(ctx context.Context, js jetstream.JetStream, subject string) capture {
	_, err := js.StreamNameBySubject(ctx, subject)
	switch {
	case err == nil:
		return captured
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return notCaptured
	}
	return captureUnknown
}

// uncaptured explains err to a person when no stream takes subject.
func uncaptured(subject string, err error) error {
	return fmt.Errorf("no stream captures subject %q: create one, or correct the subject (%w)", subject, err)
}
