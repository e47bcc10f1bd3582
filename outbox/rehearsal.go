package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// Rehearsal carries messages through the decisions of a relay one step at a time and without a server: it takes rows
// from a real feed, has them "published" by a function, judges the answers and settles the rows, with the same code and
// events as [Relay.Run]. It is for simulators and test kits.
//
// Nothing happens between two steps. The connection counts as down, so that nobody is asked which stream takes a
// subject; what the answers of the function mean does not depend on it, except for errors that say nothing about the
// row, which then use up no attempt. There are no calls: rows of [onefold.KindCall] are parked as if their function
// were not registered. An observer function that calls runtime.Goexit cuts the step off at that point, as the death of
// the process would; the Rehearsal is of no use any more then.
//
// Its methods belong to one goroutine at a time.
type Rehearsal struct {
	relay *Relay
	feed  onefold.Feed
	s     *session // nil: no feed is open
	read  func(*jetstream.PubAck) (id string, ok bool)
	pub   *rehearsedServer
}

// NewRehearsal checks the configuration as [NewRelay] does and makes a relay on st that is driven by hand. c.JetStream
// is not used and may be nil; c.Functions must be empty.
//
// publish answers for the server, each time a row is sent; the message belongs to it. read finds the transport ID of the
// message that an answer is about, for duplicates that cannot be one; ok is false if the stream does not have it.
//
// Errors: [onefold.ErrInvalid], naming every field that cannot work.
func NewRehearsal(st onefold.Store, c Config, publish func(*nats.Msg) (*jetstream.PubAck, error),
	read func(*jetstream.PubAck) (id string, ok bool)) (*Rehearsal, error) {
	if len(c.Functions) > 0 || publish == nil || read == nil {
		return nil, fmt.Errorf("%w: relay: a rehearsal needs publish and read and makes no calls; leave Functions empty", onefold.ErrInvalid)
	}
	server := &rehearsedServer{answer: publish, conn: new(nats.Conn)}
	c.JetStream = server
	relay, err := NewRelay(st, c)
	if err != nil {
		return nil, err
	}
	return &Rehearsal{relay: relay, read: read, pub: server}, nil
}

// Fetch opens a feed if none is open, takes at most limit due rows, waiting for the first until ctx ends, and publishes
// them. It returns how many. Window rows at most may be out; see Finish. After [onefold.ErrLost] the feed is closed and the
// next Fetch opens another.
//
// Errors: those of [onefold.Store.Feed] and [onefold.Feed], and ctx.Err().
func (r *Rehearsal) Fetch(ctx context.Context, limit int) (int, error) {
	if r.s == nil {
		if err := r.open(ctx); err != nil {
			return 0, err
		}
	}
	n, err := r.s.window.take(ctx)
	if err != nil {
		return 0, err
	}
	rows, err := r.feed.Next(ctx, min(n, limit))
	r.s.window.give(n - len(rows))
	if err != nil {
		return 0, r.unlessLost(err)
	}
	r.s.launch(rows)
	return len(rows), nil
}

// Finish judges what was answered since the last call and settles those rows in one step, repeating it until the store
// has said whether it did, or ctx ends.
//
// Errors: those of [onefold.Store.Settle]; after [onefold.ErrFull] the outcomes are still owed and Finish may be called
// again, after [onefold.ErrLost] the feed is closed.
func (r *Rehearsal) Finish(ctx context.Context) error {
	if r.s == nil {
		return nil
	}
	err := r.s.finish(ctx, r.s.pub.take())
	for err == nil && len(r.s.verifier.asked) > 0 {
		a := <-r.s.verifier.asked
		r.s.verifier.verify(ctx, &a)
		err = r.s.finish(ctx, []answer{a})
	}
	return r.unlessLost(err)
}

// Close gives back the rows that are out. Closing twice is success.
func (r *Rehearsal) Close() error {
	if r.s == nil {
		return nil
	}
	r.s = nil
	return r.feed.Close()
}

// open begins a session as [Relay.Run] does.
func (r *Rehearsal) open(ctx context.Context) (err error) {
	if r.feed, err = r.relay.store.Feed(ctx, r.relay.config.Lease); err != nil {
		return err
	}
	r.pub.publisher = &publisher{js: r.pub, out: map[*nats.Msg]*onefold.Row{}, ready: make(chan struct{}, 1)}
	r.s = newSession(r.relay, r.feed, r.pub.publisher)
	r.s.calls = newCalls(ctx, r.relay, r.s.pub.resolve)
	r.s.verifier.transportID = func(_ context.Context, ack *jetstream.PubAck, _ string) (id string, _ time.Duration, ok bool, _ error) {
		id, ok = r.read(ack)
		return id, 0, ok, nil
	}
	return nil
}

// unlessLost passes err on, and closes a feed that has ended.
func (r *Rehearsal) unlessLost(err error) error {
	if errors.Is(err, onefold.ErrLost) {
		_ = r.Close()
	}
	return err
}

// rehearsedServer is the part of JetStream that the publisher of a relay uses.
type rehearsedServer struct {
	jetstream.JetStream // nil: nothing else is asked of it
	conn                *nats.Conn
	answer              func(*nats.Msg) (*jetstream.PubAck, error)
	publisher           *publisher
}

func (s *rehearsedServer) Conn() *nats.Conn { return s.conn }

// PublishMsgAsync answers before it returns.
func (s *rehearsedServer) PublishMsgAsync(m *nats.Msg, _ ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	ack, err := s.answer(m)
	s.publisher.answered(m, ack, err)
	return nil, nil
}
