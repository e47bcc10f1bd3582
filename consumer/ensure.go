package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// ensureConsumer finds or makes the durable and returns the floor that it goes with. Of one that exists it
// changes only what onefold manages: explicit acks are demanded, MaxDeliver and BackOff are switched off because
// attempts and delays are ours, what Config sets is set, and which store goes with it is noted.
func (s *session) ensureConsumer(ctx context.Context, stored floor, stream jetstream.Stream) (f floor, err error) {
	s.consumer, err = s.js.Consumer(ctx, s.cfg.Stream, s.cfg.Name)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		err = s.makeConsumer(ctx, stored, stream)
	case errors.Is(err, jetstream.ErrNotPullConsumer):
		return f, fmt.Errorf("adopt the durable: %w: it is a push consumer; use another name", onefold.ErrInvalid)
	case err != nil:
		return f, fmt.Errorf("look up the durable: %w", err)
	case s.cfg.BindOnly:
		err = s.bind(ctx, stored, stream)
	default:
		err = s.adopt(ctx, stored, stream)
	}
	if err != nil {
		return f, err
	}
	info, in := s.consumer.CachedInfo(), stream.CachedInfo()
	s.made = info.Created
	f = stored.fit(in.Created.UnixNano(), filterOf(filtersOf(info.Config)), info.AckFloor.Stream, in.State.LastSeq)
	f.Foreign = info.Config.Metadata[metaMade] == ""
	return f, nil
}

// makeConsumer makes the durable, if it is ours to make.
func (s *session) makeConsumer(ctx context.Context, stored floor, stream jetstream.Stream) error {
	switch {
	case s.cfg.BindOnly:
		return fmt.Errorf("%w; Config.BindOnly makes none: make it with explicit acks, MaxDeliver -1 and no BackOff", jetstream.ErrConsumerNotFound)
	case stored.Foreign && !s.cfg.AdoptDurable:
		return fmt.Errorf("%w; it was made by somebody else: make it again there, or set Config.AdoptDurable to have it made from this Config", jetstream.ErrConsumerNotFound)
	}
	own, err := s.current(ctx)
	if err != nil {
		return err
	}
	wanted := newConsumerConfig(s.cfg)
	if behind, known := stored.restart(ctx, s.cfg, stream); known {
		wanted = startBehind(wanted, behind)
	}
	wanted.Metadata = own.noted(monitored(wanted.MaxAckPending))
	wanted.Metadata[metaMade] = "yes"
	s.consumer, err = s.js.CreateConsumer(ctx, s.cfg.Stream, wanted)
	if errors.Is(err, jetstream.ErrConsumerExists) { // another replica has made it meanwhile
		if s.consumer, err = s.js.Consumer(ctx, s.cfg.Stream, s.cfg.Name); err != nil {
			return fmt.Errorf("look up the durable that has just been made: %w", err)
		}
		return s.adopt(ctx, stored, stream)
	}
	if err != nil {
		return fmt.Errorf("create the durable (filter subjects %q): %w", s.cfg.FilterSubjects, err)
	}
	return nil
}

// restart is the position behind which a durable that was lost starts: what this store has settled or, if
// that is not certain or nothing yet, where the lost one began, which may be 0, before the first message. If it is not
// known it starts as a new one does.
func (f floor) restart(ctx context.Context, cfg Config, stream jetstream.Stream) (behind uint64, known bool) {
	info := stream.CachedInfo()
	switch {
	case f.Created == 0, info.Config.Retention == jetstream.WorkQueuePolicy:
		return 0, false // nothing was served yet; or the stream takes no durable that starts anywhere but with its first message
	case f.Created != info.Created.UnixNano():
		return 0, true // a stream made anew: all that it has came since the former one was served
	}
	fitted := f.fit(f.Created, filterOf(cfg.FilterSubjects), 0, info.State.LastSeq)
	if fitted.At.Sequence > 0 && knows(ctx, stream, fitted.At) {
		return fitted.At.Sequence, true
	}
	// One that starts with what is newest would skip what came since it was lost.
	if f.Filter == fitted.Filter && f.From <= info.State.LastSeq && cfg.DeliverPolicy != jetstream.DeliverAllPolicy {
		return f.From, true
	}
	return 0, false
}

// knows reports whether the stream still is the one in which the sample was taken, so that a lost durable may
// start behind it. A stream that was restored from an older copy may have used the positions again. If it is not
// certain, the durable starts earlier, and the floor answers what is settled.
func knows(ctx context.Context, stream jetstream.Stream, at sample) bool {
	m := messageAt(ctx, stream, at.Sequence)
	return m != nil && m.Time.UnixNano() == at.Time
}

// adopt takes over a durable that exists.
func (s *session) adopt(ctx context.Context, stored floor, stream jetstream.Stream) error {
	info := s.consumer.CachedInfo()
	if err := checkAdopted(info.Config); err != nil {
		return fmt.Errorf("adopt the durable: %w", err)
	}
	wanted := managed(info.Config, s.cfg)
	if err := checkWanted(wanted); err != nil {
		return fmt.Errorf("adopt the durable: %w", err)
	}
	own, err := s.checkBinding(ctx, stored, stream, info)
	if err != nil {
		return err
	}
	wanted.Metadata = own.noted(wanted.Metadata)
	if s.cfg.AdoptDurable {
		wanted.Metadata[metaMade] = "yes"
	}
	if sameManaged(info.Config, wanted) {
		return nil
	}
	if s.consumer, err = s.js.UpdateConsumer(ctx, s.cfg.Stream, wanted); err != nil {
		return fmt.Errorf("update the durable (filter subjects %q): %w", s.cfg.FilterSubjects, err)
	}
	// What the server tells of a durable that it has just changed may be as old as its own start.
	if _, err = s.consumer.Info(ctx); err != nil {
		return fmt.Errorf("look up the durable: %w", err)
	}
	return nil
}

// bind takes a durable as it is.
func (s *session) bind(ctx context.Context, stored floor, stream jetstream.Stream) error {
	info := s.consumer.CachedInfo()
	for _, problem := range []error{checkAdopted(info.Config), checkWanted(info.Config), checkBound(info.Config, s.cfg)} {
		if problem != nil {
			return fmt.Errorf("bind to the durable: %w", problem)
		}
	}
	_, err := s.checkBinding(ctx, stored, stream, info)
	return err
}

// newConsumerConfig is the configuration of a consumer that does not exist.
func newConsumerConfig(cfg Config) jetstream.ConsumerConfig {
	c := managed(jetstream.ConsumerConfig{
		Name: cfg.Name, Durable: cfg.Name, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: DefaultAckWait, MaxAckPending: max(DefaultMaxAckPending, cfg.Concurrency), DeliverPolicy: cfg.DeliverPolicy,
	}, cfg)
	c.OptStartSeq = cfg.StartSequence
	if !cfg.StartTime.IsZero() {
		c.OptStartTime = &cfg.StartTime
	}
	return c
}

// startBehind makes a consumer that was lost start behind a position, whatever a new one would do.
func startBehind(c jetstream.ConsumerConfig, behind uint64) jetstream.ConsumerConfig {
	c.DeliverPolicy, c.OptStartSeq, c.OptStartTime = jetstream.DeliverAllPolicy, 0, nil
	if behind > 0 {
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, behind+1
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
		found.MaxAckPending == wanted.MaxAckPending && slices.Equal(filtersOf(found), filtersOf(wanted)) &&
		maps.Equal(found.Metadata, wanted.Metadata)
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

// checkBound refuses settings that onefold would change if it might.
func checkBound(found jetstream.ConsumerConfig, cfg Config) error {
	var p []error
	add := func(format string, args ...any) { p = append(p, fmt.Errorf(format, args...)) }
	if found.MaxDeliver > 0 {
		add("MaxDeliver is %d: the server would give up messages that are not done, set it to -1", found.MaxDeliver)
	}
	if len(found.BackOff) > 0 {
		add("BackOff is %v: it takes the place of AckWait, remove it", found.BackOff)
	}
	if cfg.AckWait > 0 && cfg.AckWait != found.AckWait {
		add("AckWait is %v and Config.AckWait %v: make them equal, or leave Config's 0", found.AckWait, cfg.AckWait)
	}
	if cfg.MaxAckPending > 0 && cfg.MaxAckPending != found.MaxAckPending {
		add("MaxAckPending is %d and Config.MaxAckPending %d: make them equal, or leave Config's 0", found.MaxAckPending, cfg.MaxAckPending)
	}
	if len(cfg.FilterSubjects) > 0 && filterOf(cfg.FilterSubjects) != filterOf(filtersOf(found)) {
		add("its filter subjects are %q and Config.FilterSubjects %q: make them equal, or leave Config's empty", filtersOf(found), cfg.FilterSubjects)
	}
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("%w: with Config.BindOnly the durable is not changed: %w", onefold.ErrInvalid, errors.Join(p...))
}

// pullLimit is how many messages may be asked for and unanswered at once; 0: as many as we like.
func pullLimit(c jetstream.ConsumerConfig) int {
	limit := max(c.MaxAckPending, 0) // the server's -1 is "no limit"
	if c.MaxRequestBatch > 0 && (limit == 0 || c.MaxRequestBatch < limit) {
		limit = c.MaxRequestBatch
	}
	return limit
}
