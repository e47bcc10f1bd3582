package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// ensureConsumer returns the durable, made or adopted, and the floor that it goes with. Of an adopted one
// it changes only what onefold manages: explicit acks are demanded, MaxDeliver and BackOff are switched off
// because attempts and delays are ours, and what Config sets is set.
func ensureConsumer(ctx context.Context, js jetstream.JetStream, cfg Config, stored floor, stream *jetstream.StreamInfo) (jetstream.Consumer, floor, error) {
	fit := func(filters []string, start uint64) floor {
		return stored.fit(stream.Created.UnixNano(), filterOf(filters), start, stream.State.LastSeq)
	}
	c, err := js.Consumer(ctx, cfg.Stream, cfg.Name)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		f := fit(cfg.FilterSubjects, 0)
		if f.At.Sequence > 0 && !knows(ctx, js, stream, f.At) {
			f.At = sample{}
		}
		c, err = js.CreateConsumer(ctx, cfg.Stream, newConsumerConfig(cfg, f))
		if err != nil {
			return nil, stored, fmt.Errorf("create the durable (filter subjects %q): %w", cfg.FilterSubjects, err)
		}
	case errors.Is(err, jetstream.ErrNotPullConsumer):
		return nil, stored, fmt.Errorf("adopt the durable: %w: it is a push consumer; use another name", onefold.ErrInvalid)
	case err != nil:
		return nil, stored, fmt.Errorf("look up the durable: %w", err)
	default:
		if c, err = adopt(ctx, js, cfg, c); err != nil {
			return nil, stored, err
		}
	}
	info := c.CachedInfo()
	return c, fit(filtersOf(info.Config), info.AckFloor.Stream), nil
}

// knows reports whether the stream still is the one in which the sample was taken, so that a lost durable may
// start behind it. A stream that was restored from an older copy may have used the positions again, and a
// work queue takes no durable that starts anywhere but with its first message. If it is not certain, the
// durable starts as a new one would, and the floor answers what is settled.
func knows(ctx context.Context, js jetstream.JetStream, stream *jetstream.StreamInfo, at sample) bool {
	if stream.Config.Retention == jetstream.WorkQueuePolicy {
		return false
	}
	s, err := js.Stream(ctx, stream.Config.Name)
	if err != nil {
		return false
	}
	m, err := s.GetMsg(ctx, at.Sequence)
	return err == nil && m.Time.UnixNano() == at.Time
}

// adopt takes over a durable that exists.
func adopt(ctx context.Context, js jetstream.JetStream, cfg Config, c jetstream.Consumer) (jetstream.Consumer, error) {
	found := c.CachedInfo().Config
	if err := checkAdopted(found); err != nil {
		return nil, fmt.Errorf("adopt the durable: %w", err)
	}
	wanted := managed(found, cfg)
	if err := checkWanted(wanted); err != nil {
		return nil, fmt.Errorf("adopt the durable: %w", err)
	}
	if sameManaged(found, wanted) {
		return c, nil
	}
	c, err := js.UpdateConsumer(ctx, cfg.Stream, wanted)
	if err != nil {
		return nil, fmt.Errorf("update the durable (filter subjects %q): %w", cfg.FilterSubjects, err)
	}
	return c, nil
}

// newConsumerConfig is the configuration of a consumer that does not exist. If this store has settled
// part of the stream already, the consumer was lost: it starts behind that part.
func newConsumerConfig(cfg Config, f floor) jetstream.ConsumerConfig {
	c := managed(jetstream.ConsumerConfig{
		Name: cfg.Name, Durable: cfg.Name, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: DefaultAckWait, MaxAckPending: max(DefaultMaxAckPending, cfg.Concurrency), DeliverPolicy: cfg.DeliverPolicy,
	}, cfg)
	switch {
	case f.At.Sequence > 0:
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, f.At.Sequence+1
	case cfg.StartSequence > 0:
		c.OptStartSeq = cfg.StartSequence
	case !cfg.StartTime.IsZero():
		c.OptStartTime = &cfg.StartTime
	}
	return c
}

// managed returns c with what onefold and cfg decide.
func managed(c jetstream.ConsumerConfig, cfg Config) jetstream.ConsumerConfig {
	c.MaxDeliver, c.BackOff = -1, nil
	if cfg.AckWait > 0 {
		c.AckWait = cfg.AckWait
	}
	if cfg.MaxAckPending > 0 {
		c.MaxAckPending = cfg.MaxAckPending
	}
	if len(cfg.FilterSubjects) > 0 {
		c.FilterSubject, c.FilterSubjects = "", slices.Clone(cfg.FilterSubjects)
	}
	return c
}

// sameManaged reports whether found needs no update.
func sameManaged(found, wanted jetstream.ConsumerConfig) bool {
	return found.MaxDeliver == wanted.MaxDeliver && len(found.BackOff) == 0 && found.AckWait == wanted.AckWait &&
		found.MaxAckPending == wanted.MaxAckPending && slices.Equal(filtersOf(found), filtersOf(wanted))
}

// filtersOf returns the filter subjects, which a server may hold in either of two fields.
func filtersOf(c jetstream.ConsumerConfig) []string {
	if c.FilterSubject != "" {
		return []string{c.FilterSubject}
	}
	return c.FilterSubjects
}

// checkAdopted refuses a consumer that cannot carry the guarantee.
func checkAdopted(c jetstream.ConsumerConfig) error {
	switch {
	case c.AckPolicy != jetstream.AckExplicitPolicy:
		return fmt.Errorf("%w: AckPolicy is %v; it must be explicit and cannot be changed, use another name", onefold.ErrInvalid, c.AckPolicy)
	case c.Durable == "":
		return fmt.Errorf("%w: it is ephemeral; use another name", onefold.ErrInvalid)
	case len(c.PriorityGroups) > 0:
		return fmt.Errorf("%w: it has priority groups %v, which are not supported; use another name", onefold.ErrInvalid, c.PriorityGroups)
	}
	return nil
}

// checkWanted refuses settings of an adopted consumer that we leave as they are and cannot work with.
func checkWanted(c jetstream.ConsumerConfig) error {
	switch {
	case c.AckWait < minAckWait:
		return fmt.Errorf("%w: AckWait is %v; below %v messages come again before they can be answered, set Config.AckWait",
			onefold.ErrInvalid, c.AckWait, minAckWait)
	case c.MaxRequestExpires > 0 && c.MaxRequestExpires < jetstream.DefaultExpires:
		return fmt.Errorf("%w: MaxRequestExpires is %v; the server would refuse our pulls of %v, raise it or leave it unset",
			onefold.ErrInvalid, c.MaxRequestExpires, jetstream.DefaultExpires)
	}
	return nil
}

// pullLimit is how many messages may be asked for and unanswered at once; 0: as many as we like.
func pullLimit(c jetstream.ConsumerConfig) int {
	limit := max(c.MaxAckPending, 0) // the server's -1 is "no limit"
	if c.MaxRequestBatch > 0 && (limit == 0 || c.MaxRequestBatch < limit) {
		limit = c.MaxRequestBatch
	}
	return limit
}

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
