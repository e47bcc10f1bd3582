package onefold

import (
	"context"
	"slices"
	"time"
)

// The headers that onefold reads and writes. All start with HeaderPrefix, which handlers may not use for
// headers of their own.
const (
	HeaderPrefix = "Onefold-"

	// HeaderID carries the message's own ID. A consumer prefers it to Nats-Msg-Id, because the transport
	// ID of a redriven or replayed message must differ while its own ID stays.
	HeaderID = "Onefold-Id"
)

// Header is a message header. Names are case-sensitive, as in NATS.
type Header map[string][]string

// Get returns the first value of name, or "".
func (h Header) Get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// clone copies h and its values.
func (h Header) clone() Header {
	if h == nil {
		return nil
	}
	c := make(Header, len(h))
	for name, values := range h {
		c[name] = slices.Clone(values)
	}
	return c
}

// Message is one delivery as a handler sees it. It has no ack methods: what the handler returns decides.
//
// A handler may read a Message until it returns and must not change it. Data and Header belong to the
// framework; copy what you keep.
type Message struct {
	Subject string
	Header  Header
	Data    []byte

	Stream   string    // stream that holds the message
	Consumer string    // durable that delivered it
	Sequence uint64    // position in the stream
	Time     time.Time // when the stream stored it
}

// Handler does the work of one message and asks for effects through fx. It runs outside any transaction.
//
// nil commits the effects and acks the message. Any other error throws the effects away: an error
// wrapped by [Permanent] ends the message as a dead letter at once, one wrapped by [RetryAfter] brings it
// again after that time, any other brings it again after a growing delay until the attempts are used up.
// A panic and a runtime.Goexit count as an error; a panic in a goroutine that the handler starts ends the
// process, as everywhere in Go.
//
// ctx ends when the claim is lost or the consumer stops for good; a handler that then returns has its
// effects refused. ctx is not cancelled when the handler returns.
type Handler func(ctx context.Context, msg *Message, fx *Effects) error
