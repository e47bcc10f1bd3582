package consumer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// Rehearsal carries messages through the stages of a consumer one at a time and without a server: receive, claim,
// handle, commit, finish, with the same decisions and events. It is what package onefoldtest is made of; tests of
// handlers use that.
//
// Nothing happens between two calls: no heartbeat renews claims, nothing is pulled, and the floor is not moved. Messages
// come in the order in which they are delivered, so that Config.OrderBy and RateLimit make nothing wait, and Config.Batch gets batches of one. An
// observer function that calls runtime.Goexit cuts the message off at that point, as the death of the process would;
// the Rehearsal is of no use any more then and has to be closed.
//
// Deliver may be called from inside a handler, to bring another message while it runs, and otherwise by one goroutine
// at a time.
type Rehearsal struct {
	s   *session
	end context.CancelFunc
}

// NewRehearsal checks the configuration as [New] does and makes a consumer on st that is fed by hand. Close it. The
// largest message is [onefold.DefaultMaxPayload].
//
// Errors: [onefold.ErrInvalid], naming every field that cannot work.
func NewRehearsal(st onefold.Store, cfg Config) (*Rehearsal, error) {
	if st == nil {
		return nil, fmt.Errorf("%w: st is nil; open a store, for example with memstore.New", onefold.ErrInvalid)
	}
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("consumer %q on stream %q: %w", cfg.Name, cfg.Stream, err)
	}
	setDefault(&cfg.AckWait, DefaultAckWait)
	cfg.RateLimit, cfg.OrderBy = nil, nil // nobody waits here
	if cfg.Batch != nil {
		cfg.Handler = cfg.Batch.OneByOne()
	}
	s := newSession(cfg, st, newStatus(cfg), onefold.DefaultMaxPayload)
	s.beat = heartbeatRule{ackWait: cfg.AckWait, lease: cfg.Lease}
	s.floor.Store(&floor{})
	s.pull = newPuller(nil, nil, prefetch{}, s.clock, s.receive, s.pullTrouble)
	s.pull.paused = true // what is held is counted, and nothing is asked for
	own, end := context.WithCancel(context.Background())
	s.handlers, s.starts, s.ops, s.waits = own, own, own, own
	return &Rehearsal{s: s, end: end}, nil
}

// Answer is what the server was told of a delivery.
type Answer struct {
	Acked bool          // it is done
	Again bool          // bring it again after Delay
	Delay time.Duration // with Again
}

// Deliver brings one message and returns when nothing is left to do for it now. Subject, Header, Data, Sequence and
// Time of msg count; it must not be changed afterwards. The returned function tells the answer so far: a copy of a
// running key is answered when that run has ended, a dead letter when a relay has sent it (see Wait), and what was
// dropped, cut off or lost never.
func (r *Rehearsal) Deliver(msg *onefold.Message) (answer func() Answer) {
	h := &handed{msg: msg, stream: r.s.cfg.Stream, consumer: r.s.cfg.Name}
	aside(func() { r.s.receive(h) })
	for r.s.work.waits() || r.s.commits.waits() {
		aside(r.drive)
	}
	return h.answered
}

// Wait returns when every dead letter that was committed is answered. A relay has to send them, or it waits for ever.
func (r *Rehearsal) Wait() { r.s.background.Wait() }

// Close ends the contexts of handlers and waits for what Wait waits for, which goes unanswered now.
func (r *Rehearsal) Close() {
	r.end()
	r.s.background.Wait()
}

// aside runs f in a goroutine of its own and waits for it, because a handler may end the goroutine that it runs on.
func aside(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// drive is one worker and one committer in turn, until there is nothing left to do.
func (r *Rehearsal) drive() {
	var w worker
	defer func() {
		w.discardContext()
		if d := w.running; d != nil {
			r.s.handled(&w, d, w.call.Err()) // the handler has called runtime.Goexit
		}
	}()
	for {
		switch {
		case r.s.commits.waits():
			r.s.commit(r.s.commits.popAll(nil))
		case r.s.work.waits():
			if d, ok := r.s.work.pop(); ok {
				r.s.carry(&w, d)
			}
		default:
			return
		}
	}
}

// waits reports whether there is an item.
func (q *fifo[T]) waits() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.head < len(q.items)
}

// handed is a message that no server has sent.
type handed struct {
	msg              *onefold.Message
	stream, consumer string

	mu     sync.Mutex
	answer Answer
}

var _ jetstream.Msg = (*handed)(nil)

func (h *handed) answered() Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answer
}

// tell keeps the first answer, as the client does.
func (h *handed) tell(a Answer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.answer != (Answer{}) {
		return jetstream.ErrMsgAlreadyAckd
	}
	h.answer = a
	return nil
}

// Metadata tells where the message is stored.
func (h *handed) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Stream: h.msg.Sequence}, Timestamp: h.msg.Time,
		Stream: h.stream, Consumer: h.consumer}, nil
}

func (h *handed) Data() []byte         { return h.msg.Data }
func (h *handed) Headers() nats.Header { return nats.Header(h.msg.Header) }
func (h *handed) Subject() string      { return h.msg.Subject }
func (h *handed) Reply() string        { return "" }

func (h *handed) Ack() error                         { return h.tell(Answer{Acked: true}) }
func (h *handed) DoubleAck(context.Context) error    { return h.Ack() }
func (h *handed) Nak() error                         { return h.tell(Answer{Again: true}) }
func (h *handed) NakWithDelay(d time.Duration) error { return h.tell(Answer{Again: true, Delay: d}) }
func (h *handed) InProgress() error                  { return nil }
func (h *handed) Term() error                        { return h.Ack() }
func (h *handed) TermWithReason(_ string) error      { return h.Ack() }
