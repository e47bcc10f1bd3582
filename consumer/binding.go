package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// What a durable's metadata says of onefold. The store that goes with it is noted when a session begins and
// when it ends in order.
const (
	metaMade     = "onefold.made"     // onefold made it, or took it over: it is made again when it is lost
	metaStore    = "onefold.store"    // identity of the store
	metaEpoch    = "onefold.epoch"    // how often that was opened
	metaPosition = "onefold.position" // its highest journal position then
	metaEnded    = "onefold.ended"    // the session that has noted this has ended in order
)

// binding is which store goes with a durable, and how far that was when it was noted.
type binding struct {
	Store           string // empty: none
	Epoch, Position uint64
	Ended           bool // noted at the end of a session, so that there is nothing that the store could not know
}

// bindingOf reads metadata.
func bindingOf(metadata map[string]string) (b binding, err error) {
	b.Store, b.Ended = metadata[metaStore], metadata[metaEnded] != ""
	for key, field := range map[string]*uint64{metaEpoch: &b.Epoch, metaPosition: &b.Position} {
		if text, ok := metadata[key]; ok {
			if *field, err = strconv.ParseUint(text, 10, 64); err != nil {
				return b, fmt.Errorf("%w: the durable's metadata %s is %q, not a number; correct it, or set Config.AdoptDurable for one start", ErrWrongStore, key, text)
			}
		}
	}
	return b, nil
}

// noted returns metadata with b in it.
func (b binding) noted(metadata map[string]string) map[string]string {
	all := maps.Clone(metadata)
	if all == nil {
		all = map[string]string{}
	}
	all[metaStore] = b.Store
	if delete(all, metaEnded); b.Ended {
		all[metaEnded] = "yes"
	}
	all[metaEpoch], all[metaPosition] = strconv.FormatUint(b.Epoch, 10), strconv.FormatUint(b.Position, 10)
	return all
}

// admits says whether a store may serve the durable that b was noted in: own is where the store is now,
// made when its data was made. Positions only grow, so a store that is behind what was noted is an older copy.
// If the copy was taken after that, only what it does not know of tells: unknown is the position of an acked
// message that it should have a record of and has not, 0 if none was found.
func (b binding) admits(own binding, made time.Time, unknown uint64) error {
	const anew = "to go on without what it has done, which may be done again then, set Config.AdoptDurable for one start"
	at := fmt.Sprintf("store %s (epoch %d, position %d)", b.Store, b.Epoch, b.Position)
	switch {
	case b.Store == "":
		return nil
	case b.Store != own.Store && own.Position == 0:
		return fmt.Errorf("%w: it goes with %s, and this store, %s, made %s, is empty: use the directory of the former; %s",
			ErrWrongStore, at, own.Store, made.UTC().Format(time.RFC3339), anew)
	case b.Store != own.Store:
		return fmt.Errorf("%w: it goes with %s, and this is store %s, made %s: use that one, or give this consumer a Config.Name of its own; %s",
			ErrWrongStore, at, own.Store, made.UTC().Format(time.RFC3339), anew)
	case own.Epoch < b.Epoch || own.Position < b.Position:
		return fmt.Errorf("%w: it goes with %s, and this is an older copy of it (epoch %d, position %d): use the newest one; %s",
			ErrWrongStore, at, own.Epoch, own.Position, anew)
	case unknown > 0:
		return fmt.Errorf("%w: it goes with %s, and stream message %d is acked, of which this store has no record: it is an older copy, or somebody else acks on this durable; %s",
			ErrWrongStore, at, unknown, anew)
	}
	return nil
}

// current is the binding of this session's store now.
func (s *session) current(ctx context.Context) (binding, error) {
	stats, err := s.st.Stats(ctx)
	if err != nil {
		return binding{}, fmt.Errorf("read the store's position: %w", err)
	}
	own := s.st.Info()
	return binding{Store: own.ID, Epoch: own.Epoch, Position: stats.Position}, nil
}

// checkBinding returns what is to be noted in the durable found, or why this store must not serve it.
func (s *session) checkBinding(ctx context.Context, stored floor, stream jetstream.Stream, found *jetstream.ConsumerInfo) (binding, error) {
	own, err := s.current(ctx)
	if err != nil || s.cfg.AdoptDurable {
		return own, err
	}
	bound, err := bindingOf(found.Config.Metadata)
	if err != nil {
		return own, err
	}
	var unknown uint64
	if bound.Store == own.Store && !bound.Ended {
		if unknown, err = s.unrecorded(ctx, stored, stream, found); err != nil {
			return own, err
		}
	}
	return own, bound.admits(own, s.st.Info().Created, unknown)
}

// unrecorded looks at the last message that the server counts as acked, if the store's floor has not reached
// it, and returns its position if the store should have a record of it and has not. We ack only what is
// recorded, and the floor follows within a second, so after a crash this is one message at most that has a
// record.
func (s *session) unrecorded(ctx context.Context, stored floor, stream jetstream.Stream, found *jetstream.ConsumerInfo) (uint64, error) {
	acked := found.AckFloor.Stream
	if stored.Created != stream.CachedInfo().Created.UnixNano() || acked <= max(stored.At.Sequence, stored.From) {
		return 0, nil
	}
	m := messageAt(ctx, stream, acked)
	if m == nil || !selects(filterOf(filtersOf(found.Config)), m.Subject) || found.TimeStamp.Sub(m.Time) >= s.cfg.Retention {
		return 0, nil // it is gone, was never ours, or may be forgotten: nothing is known of it
	}
	d := &delivery{msg: onefold.Message{Subject: m.Subject, Header: onefold.Header(m.Header), Data: m.Data,
		Stream: s.cfg.Stream, Consumer: s.cfg.Name, Sequence: m.Sequence, Time: m.Time}}
	switch s.cfg.addressee(&d.msg) {
	case toAnother:
		return 0, nil // acked without a record
	case toUs:
		d.redriven = true
	}
	s.identify(d)
	_, err := s.st.Lookup(ctx, d.key)
	if errors.Is(err, onefold.ErrNotFound) {
		return acked, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look up message %d: %w", acked, err)
	}
	return 0, nil
}

// messageAt is the message that the stream has at a position, nil if it has none or does not say: a client
// that may not read messages gets no answer at all.
func messageAt(ctx context.Context, stream jetstream.Stream, position uint64) *jetstream.RawStreamMsg {
	ctx, cancel := context.WithTimeout(ctx, floorTimeout)
	defer cancel()
	m, err := stream.GetMsg(ctx, position)
	if err != nil {
		return nil
	}
	return m
}

// noteBinding writes where the store is now into the durable, at the end of a session. If it cannot, the
// note of the beginning stands, which is true as well, only older.
func (s *session) noteBinding(ctx context.Context) {
	if s.cfg.BindOnly || !s.js.Conn().IsConnected() {
		return
	}
	own, err := s.current(ctx)
	if err != nil {
		return
	}
	info, err := s.consumer.Info(ctx)
	if err != nil || info.Config.Metadata[metaStore] != own.Store {
		return // it is gone, or goes with another store now
	}
	own.Ended = true
	changed := info.Config
	changed.Metadata = own.noted(changed.Metadata)
	_, _ = s.js.UpdateConsumer(ctx, s.cfg.Stream, changed)
}

// stillOurs reports why a session must not go on with the durable as the server has it now.
func (s *session) stillOurs(now *jetstream.ConsumerInfo) error {
	if !now.Created.Equal(s.made) {
		return fmt.Errorf("%w: another one has been made in its place", jetstream.ErrConsumerDeleted)
	}
	if store, own := now.Config.Metadata[metaStore], s.st.Info().ID; store != "" && store != own && !s.cfg.BindOnly {
		return fmt.Errorf("%w: store %s has taken it over from this one, %s", ErrWrongStore, store, own)
	}
	return nil
}
