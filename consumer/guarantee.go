package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

// Guarantee reads the stream and the durable and returns what is promised with them and this configuration; its
// String is a report for an operator. It changes nothing, and may be called whether or not Run is under way. If
// the durable does not exist, it is judged as it would be made. Run refuses to start with what breaks the promise, and
// tells the observer what weakens it.
//
// Errors: jetstream.ErrStreamNotFound, those of the connection, [onefold.ErrInvalid] for a durable that cannot be
// adopted, and ctx.Err().
func (c *Consumer) Guarantee(ctx context.Context) (dedupe.Guarantee, error) {
	fail := func(what string, err error) (dedupe.Guarantee, error) {
		return dedupe.Guarantee{}, fmt.Errorf("consumer %s on stream %s: %s: %w", c.cfg.Name, c.cfg.Stream, what, err)
	}
	stream, err := c.js.Stream(ctx, c.cfg.Stream)
	if err != nil {
		return fail("look up the stream", err)
	}
	durable, err := c.js.Consumer(ctx, c.cfg.Stream, c.cfg.Name)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return dedupe.Assess(setupOf(c.cfg, newConsumerConfig(c.cfg), stream.CachedInfo().Config, c.st.Info())), nil
	case err != nil:
		return fail("look up the durable", err)
	}
	found := durable.CachedInfo().Config
	if err := checkAdopted(found); err != nil {
		return fail("adopt the durable", err)
	}
	if !c.cfg.BindOnly {
		found = managed(found, c.cfg)
	}
	return dedupe.Assess(setupOf(c.cfg, found, stream.CachedInfo().Config, c.st.Info())), nil
}

// setupOf gathers what a guarantee depends on.
func setupOf(cfg Config, durable jetstream.ConsumerConfig, stream jetstream.StreamConfig, store onefold.Info) dedupe.Setup {
	limited := stream.MaxMsgs > 0 || stream.MaxBytes > 0 || stream.MaxMsgsPerSubject > 0
	return dedupe.Setup{
		Name: cfg.part(), Concurrency: cfg.Concurrency,
		MaxAttempts: cfg.MaxAttempts, RetryMin: cfg.RetryMin, RetryMax: cfg.RetryMax,
		Lease: cfg.Lease, Retention: cfg.Retention, RepublishWithin: cfg.RepublishWithin,
		AckWait: durable.AckWait, MaxDeliver: durable.MaxDeliver, BackOff: len(durable.BackOff), MaxAckPending: durable.MaxAckPending,
		MaxAge: stream.MaxAge, DuplicateWindow: stream.Duplicates, Replicas: stream.Replicas,
		InMemory: stream.Storage == jetstream.MemoryStorage, DropsOld: limited && stream.Discard == jetstream.DiscardOld,
		StoreDurable: store.Durable, StoreShared: !store.OneProcess,
	}
}

// tellWeak tells the observer what weakens the promise.
func (s *session) tellWeak(g dedupe.Guarantee) {
	for _, f := range g.Findings {
		s.warn(f.Text)
	}
}

func (s *session) warn(text string) {
	if s.obs.Warned != nil {
		s.obs.Warned(onefold.WarnEvent{At: s.clock.Wall(), Part: s.cfg.part(), Text: text})
	}
}
