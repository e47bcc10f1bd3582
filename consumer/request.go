package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

// The times of [Request].
const (
	firstAnswerWait   = time.Second      // until a request is published again
	longestAnswerWait = 30 * time.Second // the same, after many
)

// ErrNoResult reports that the message has ended and that there is no result to be had. See [Reply].
var ErrNoResult = errors.New("ended without a result")

// Reply is the answer to a [Request].
type Reply struct {
	Outcome onefold.Outcome // Succeeded, DeadLettered, ParkedUnknown
	Result  []byte          // what the handler gave to Effects.Result
	Reason  string          // why there is no result
}

// Request publishes a message under an ID of the caller's and waits for what its handler gave to Effects.Result. It asks
// again, under the same ID and with fresh transport IDs, until it is answered or ctx ends: the handler's effects are
// once however often it asks, and a repeat is answered from the stored result. Ask again with the same ID after ctx has
// ended; the work goes on meanwhile. Each try stores a copy of the message in the stream.
//
// Exactly one consumer of the stream should select the subject: of several, the first answer counts. The connection's
// inbox prefix must be the consumer's Config.ReplyPrefix.
//
// m is not changed; its Header may hold others than those of onefold and JetStream.
//
// Errors: [onefold.ErrInvalid] (no ID, no subject); [ErrNoResult] with the Reply, if it did not succeed or its result was not
// kept; ctx.Err() with the last error of publishing. Those of ctx leave open whether the work is done.
func Request(ctx context.Context, js jetstream.JetStream, id string, m *nats.Msg) (Reply, error) {
	if js == nil || m == nil {
		return Reply{}, fmt.Errorf("request: %w: js or m is nil; give both", onefold.ErrInvalid)
	}
	if _, err := dedupe.CheckID(id); err != nil || !onefold.IsHeaderValue(id) {
		return Reply{}, fmt.Errorf("request: %w: id %q cannot stand in a header; give one that repeats keep", onefold.ErrInvalid, id)
	}
	if err := onefold.CheckSubject(m.Subject); err != nil {
		return Reply{}, fmt.Errorf("request: %w: subject: %w", onefold.ErrInvalid, err)
	}
	inbox := js.Conn().NewInbox()
	sub, err := js.Conn().SubscribeSync(inbox)
	if err != nil {
		return Reply{}, fmt.Errorf("request: subscribe to answers: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstAnswerWait), backoff.WithMaxInterval(longestAnswerWait),
		backoff.WithMaxElapsedTime(0))
	for {
		answer, err := ask(ctx, js, sub, request(m, id, inbox), wait.NextBackOff())
		if err == nil {
			return readReply(answer)
		}
		if ctx.Err() != nil {
			return Reply{}, fmt.Errorf("request %q on %s: %w", id, m.Subject, errors.Join(ctx.Err(), err))
		}
	}
}

// request is one try.
func request(m *nats.Msg, id, inbox string) *nats.Msg {
	h := maps.Clone(m.Header)
	if h == nil {
		h = nats.Header{}
	}
	h[onefold.HeaderID], h[HeaderReplyTo], h[dedupe.HeaderTransportID] = []string{id}, []string{inbox}, []string{nats.NewInbox()}
	return &nats.Msg{Subject: m.Subject, Data: m.Data, Header: h}
}

// ask publishes a try and waits for an answer to it or to an earlier one.
func ask(ctx context.Context, js jetstream.JetStream, sub *nats.Subscription, m *nats.Msg, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_, published := js.PublishMsg(ctx, m) // it may be stored although it failed
	answer, err := sub.NextMsgWithContext(ctx)
	if err != nil {
		return nil, errors.Join(published, err)
	}
	return answer, nil
}

// readReply reads an answer.
func readReply(m *nats.Msg) (Reply, error) {
	r := Reply{Result: m.Data, Reason: m.Header.Get(HeaderReplyReason)}
	text := m.Header.Get(HeaderReplyOutcome)
	for _, o := range []onefold.Outcome{onefold.Succeeded, onefold.DeadLettered, onefold.ParkedUnknown} {
		if o.String() == text {
			r.Outcome = o
		}
	}
	switch {
	case r.Outcome == 0:
		return r, fmt.Errorf("request: %w: an answer with header %s %q", onefold.ErrInvalid, HeaderReplyOutcome, text)
	case r.Outcome != onefold.Succeeded, r.Reason != "":
		return r, fmt.Errorf("request: %w: %v: %s", ErrNoResult, r.Outcome, r.Reason)
	}
	return r, nil
}
