package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// ensureDeadLetters makes sure that a stream captures the dead-letter subject, and that it keeps what it
// answers for.
func ensureDeadLetters(ctx context.Context, js jetstream.JetStream, cfg Config, replicas int) error {
	name, err := js.StreamNameBySubject(ctx, cfg.DeadLetterSubject)
	if err == nil {
		return checkDeadLetterStream(ctx, js, name, cfg)
	}
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("find the stream of dead letters %q: %w", cfg.DeadLetterSubject, err)
	}
	if cfg.BindOnly {
		return fmt.Errorf("%w: no stream captures the dead-letter subject %q, and Config.BindOnly makes none: create one, or set Config.DeadLetterSubject",
			onefold.ErrInvalid, cfg.DeadLetterSubject)
	}
	subject := cfg.DeadLetterSubject
	if subject == DefaultDeadLetterPrefix+cfg.Stream+"."+cfg.Name {
		subject = DefaultDeadLetterPrefix + ">"
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: cfg.DeadLetterStream, Description: "dead letters of onefold consumers",
		Subjects: []string{subject}, Replicas: replicas, AllowDirect: true,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		// Another consumer has just made it, or it exists for other subjects.
		if _, err = js.StreamNameBySubject(ctx, cfg.DeadLetterSubject); err == nil {
			return nil
		}
		return fmt.Errorf("%w: stream %s exists and does not capture the dead-letter subject %q: add it there or set Config.DeadLetterStream",
			onefold.ErrInvalid, cfg.DeadLetterStream, cfg.DeadLetterSubject)
	}
	if err != nil {
		return fmt.Errorf("create dead-letter stream %s: %w", cfg.DeadLetterStream, err)
	}
	return nil
}

// checkDeadLetterStream refuses streams that would swallow dead letters, and the input stream itself.
func checkDeadLetterStream(ctx context.Context, js jetstream.JetStream, name string, cfg Config) error {
	if name == cfg.Stream {
		return fmt.Errorf("%w: dead letters for %q would go into the consumed stream %s itself and be consumed again; set Config.DeadLetterSubject",
			onefold.ErrInvalid, cfg.DeadLetterSubject, name)
	}
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return fmt.Errorf("look up dead-letter stream %s: %w", name, err)
	}
	c := stream.CachedInfo().Config
	switch {
	case c.NoAck:
		return fmt.Errorf("%w: dead-letter stream %s has NoAck set: nothing would tell that a dead letter is stored", onefold.ErrInvalid, name)
	case c.Retention == jetstream.InterestPolicy && stream.CachedInfo().State.Consumers == 0:
		return fmt.Errorf("%w: dead-letter stream %s keeps messages only while a consumer exists and has none: dead letters would vanish; make one or use limits retention",
			onefold.ErrInvalid, name)
	}
	return nil
}
