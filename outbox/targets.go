package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// This file looks at each stream that rows arrive in, once, and tells the observer what weakens the promise there. The
// relay learns of a stream when it answers; nothing waits for the look.

// maxTargets bounds how many streams are looked at.
const maxTargets = 1024

// targets are the streams that were seen. They live as long as the relay; one goroutine uses them at a time.
type targets map[string]struct{}

// arrived notes the stream of an answer. A stream that there is no room to look at now is looked at with its next one.
func (s *session) arrived(ack *jetstream.PubAck) {
	seen := s.relay.targets
	if seen == nil || ack == nil || len(seen) >= maxTargets {
		return
	}
	if _, ok := seen[ack.Stream]; ok {
		return
	}
	select {
	case s.looks <- ack.Stream:
		seen[ack.Stream] = struct{}{}
	default:
	}
}

// lookAtTargets looks at streams until ctx ends.
func (s *session) lookAtTargets(ctx context.Context) {
	for {
		select {
		case name := <-s.looks:
			if !s.look(ctx, name) {
				s.cut = name
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// look reads the configuration of a stream, and reports false if ctx has ended before. One that may not be read is not
// judged.
func (s *session) look(ctx context.Context, name string) bool {
	c := &s.relay.config
	asking, cancel := context.WithTimeout(ctx, c.PublishTimeout)
	defer cancel()
	stream, err := c.JetStream.Stream(asking, name)
	if err != nil {
		return ctx.Err() == nil
	}
	for _, text := range weakTarget(stream.CachedInfo().Config, c.RetryMax+c.PublishTimeout) {
		c.Observer.Warned(onefold.WarnEvent{At: c.Clock.Wall(), Part: "relay", Text: text})
	}
	return true
}

// unseen forgets the streams that there was no time to look at, so that the next session does. It is called when
// lookAtTargets has returned.
func (s *session) unseen() {
	delete(s.relay.targets, s.cut)
	for {
		select {
		case name := <-s.looks:
			delete(s.relay.targets, name)
		default:
			return
		}
	}
}

// weakTarget says what about a stream weakens the promise for rows that are sent to it. again is the longest time
// after which a row is tried once more while all is well with the store.
func weakTarget(c jetstream.StreamConfig, again time.Duration) (texts []string) {
	weak := func(format string, args ...any) {
		texts = append(texts, fmt.Sprintf("stream %s, to which effects are sent: "+format, append([]any{c.Name}, args...)...))
	}
	if c.Storage == jetstream.MemoryStorage {
		weak("Storage is memory: effects that have left are lost when the server ends; use file storage")
	}
	if c.Duplicates < again {
		weak("its duplicate window is %v, and a row may be sent again after %v: it is then stored twice under one ID, and only a receiver that dedupes applies it once; make the window longer",
			c.Duplicates, again)
	}
	if limited := c.MaxMsgs > 0 || c.MaxBytes > 0 || c.MaxMsgsPerSubject > 0; limited && c.Discard == jetstream.DiscardOld {
		weak("it has a limit and discards old messages: effects may be removed before anybody has seen them; use discard policy new, with which rows wait until there is room")
	}
	if c.Retention == jetstream.InterestPolicy {
		weak("Retention is interest: an effect that arrives while it has no consumer is dropped; make the consumers first, or use limits")
	}
	return texts
}
