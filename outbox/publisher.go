package outbox

import (
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// HeaderTransportID carries the effect's ID for the server's duplicate window.
const HeaderTransportID = nats.MsgIdHdr

// answer is what came back for one row.
type answer struct {
	row *onefold.Row
	ack *jetstream.PubAck // nil if err is not nil
	err error

	verified bool          // a duplicate that has been looked for
	call     *callEnd      // of a row that was admitted to the calls; nil: it was not
	away     time.Duration // > 0: not tried now, because of err; comes again after this time
}

// publisher sends rows to JetStream without waiting and collects the answers in the order they come. It
// has a JetStream context of its own, because only that way each publish ends by itself after a time and
// is forgotten by the client; the caller's own context stays as it is.
type publisher struct {
	js      jetstream.JetStream
	options []jetstream.PublishOpt

	mu      sync.Mutex
	out     map[*nats.Msg]*onefold.Row
	answers []answer
	ready   chan struct{} // holds one token if there are answers
}

func newPublisher(conn *nats.Conn, window int, timeout time.Duration) (*publisher, error) {
	p := &publisher{
		// The client's own repeats after "no responders" are off: the relay decides, and counts.
		options: []jetstream.PublishOpt{jetstream.WithRetryAttempts(0)},
		out:     make(map[*nats.Msg]*onefold.Row, window),
		ready:   make(chan struct{}, 1),
	}
	js, err := jetstream.New(conn,
		jetstream.WithPublishAsyncMaxPending(window+1),
		jetstream.WithPublishAsyncTimeout(timeout),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, ack *jetstream.PubAck) { p.answered(m, ack, nil) }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { p.answered(m, nil, err) }),
	)
	if err != nil {
		return nil, fmt.Errorf("open JetStream for the relay: %w", err)
	}
	p.js = js
	return p, nil
}

// send publishes row. Its answer comes through take, also if it could not be sent.
func (p *publisher) send(row *onefold.Row) {
	m := messageOf(&row.Effect)
	p.mu.Lock()
	p.out[m] = row
	p.mu.Unlock()
	if _, err := p.js.PublishMsgAsync(m, p.options...); err != nil {
		p.answered(m, nil, err)
	}
}

// answered ends m. Only the first answer counts: a lost connection and a failed send may both report.
func (p *publisher) answered(m *nats.Msg, ack *jetstream.PubAck, err error) {
	p.mu.Lock()
	row := p.out[m]
	delete(p.out, m)
	p.mu.Unlock()
	if row != nil {
		p.resolve(answer{row: row, ack: ack, err: err})
	}
}

// resolve adds an answer, for rows that are never sent too.
func (p *publisher) resolve(a answer) {
	p.mu.Lock()
	p.answers = append(p.answers, a)
	p.mu.Unlock()
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// take returns the answers that have come since the last call.
func (p *publisher) take() []answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.answers
	p.answers = make([]answer, 0, len(got))
	return got
}

// pending is how many rows wait for their answer.
func (p *publisher) pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.out)
}

// close ends what is out with an error and frees what the client holds for this publisher.
func (p *publisher) close() { p.js.CleanupPublisher() }

// messageOf makes a new message for each try: the client writes into the header it is given.
func messageOf(e *onefold.Effect) *nats.Msg {
	h := make(nats.Header, len(e.Header)+2)
	for name, values := range e.Header {
		h[name] = values
	}
	id := []string{e.ID}
	h[HeaderTransportID] = id
	// The framework's own rows may carry another message's ID. Handlers' cannot.
	if len(h[onefold.HeaderID]) == 0 {
		h[onefold.HeaderID] = id
	}
	return &nats.Msg{Subject: e.Target, Header: h, Data: e.Payload}
}
