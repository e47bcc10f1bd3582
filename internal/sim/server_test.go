package sim

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/dedupe"
)

const (
	stream      = "IN"
	name        = "work"
	scope       = stream + "/" + name
	subject     = "in.work"
	outSubject  = "out.work"
	deadSubject = "dead.work"
)

// stored is one message of the stream, with what the durable consumer knows of it.
type stored struct {
	seq     uint64
	msg     onefold.Message
	key     onefold.Key // what it is, as its producer meant it; without an ID: zero
	print   onefold.Fingerprint
	out     bool          // delivered and not answered
	due     time.Duration // when it is delivered again, if it is out
	acked   bool
	ackedAt time.Duration
	ended   bool // it was rightly acked, whether the server knows or not
}

// server is a model of JetStream: the stream, a durable consumer with explicit acks on it, and the stream that effects
// and dead letters go to. Its time is that of the world, which nobody can set.
type server struct {
	messages []*stored
	target   target
}

// publish stores a message, at the position behind the last.
func (s *server) publish(msg onefold.Message, key onefold.Key, wall time.Time) *stored {
	m := &stored{seq: uint64(len(s.messages) + 1), msg: msg, key: key}
	m.msg.Stream, m.msg.Consumer, m.msg.Sequence, m.msg.Time = stream, name, m.seq, wall
	m.print = dedupe.SubjectAndBody(&m.msg)
	s.messages = append(s.messages, m)
	return m
}

// due lists what the server may hand out now: what is due again, then what is new.
func (s *server) due(now time.Duration) (all []*stored) {
	for _, m := range s.messages {
		if m.out && !m.acked && m.due <= now {
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b *stored) int { return cmp.Compare(a.due, b.due) })
	for _, m := range s.messages {
		if !m.out && !m.acked {
			all = append(all, m)
		}
	}
	return all
}

// handOut is a delivery of m: a copy, because a consumer may change the headers.
func (s *server) handOut(m *stored, now time.Duration) *onefold.Message {
	m.out, m.due = true, now+ackWait
	msg := m.msg
	msg.Header = maps.Clone(msg.Header)
	return &msg
}

// answer takes an answer that has arrived. Like the server it looks at the position alone, so that late ones count.
func (s *server) answer(m *stored, a consumer.Answer, now time.Duration) {
	switch {
	case m.acked || !m.out:
	case a.Acked:
		m.acked, m.out, m.ackedAt = true, false, now
	case a.Again:
		m.due = now + a.Delay
	}
}

// forgettable is how old an ack may be that a restart forgets: acks are written every two minutes at the latest.
const forgettable = 2 * time.Minute

// forget takes back the last n acks, as a restart does that has lost the consumer's latest state.
func (s *server) forget(n int, now time.Duration) {
	var recent []*stored
	for _, m := range s.messages {
		if m.acked && now-m.ackedAt < forgettable {
			recent = append(recent, m)
		}
	}
	slices.SortStableFunc(recent, func(a, b *stored) int { return cmp.Compare(b.ackedAt, a.ackedAt) })
	for _, m := range recent[:min(n, len(recent))] {
		m.acked, m.out, m.due = false, true, now
	}
}

// ackFloor is the highest position below which all is acked.
func (s *server) ackFloor() (floor uint64) {
	for _, m := range s.messages {
		if !m.acked {
			break
		}
		floor = m.seq
	}
	return floor
}

// publication is one message of the target stream.
type publication struct {
	id   string
	msg  *nats.Msg
	last time.Duration // when it was published last
}

// target is where effects go. It drops what comes again under one ID within its window, and keeps the rest.
type target struct {
	all    []*publication
	latest map[string]int // index in all, by subject and ID
	dead   []*publication // those that are dead letters, each ID once
}

// publish stores m unless its ID is in the window of its subject's stream.
func (t *target) publish(m *nats.Msg, now time.Duration) *jetstream.PubAck {
	id := m.Header.Get(nats.MsgIdHdr)
	i, known := t.latest[m.Subject+id]
	if known && now-t.all[i].last < duplicates {
		return &jetstream.PubAck{Stream: m.Subject, Sequence: uint64(i + 1), Duplicate: true}
	}
	if t.latest == nil {
		t.latest = map[string]int{}
	}
	p := &publication{id: id, msg: m, last: now}
	t.latest[m.Subject+id] = len(t.all)
	t.all = append(t.all, p)
	if !known && m.Subject == deadSubject {
		t.dead = append(t.dead, p)
	}
	return &jetstream.PubAck{Stream: m.Subject, Sequence: uint64(len(t.all))}
}

// read is the transport ID at a position.
func (t *target) read(ack *jetstream.PubAck) (string, bool) {
	if ack.Sequence == 0 || ack.Sequence > uint64(len(t.all)) {
		return "", false
	}
	return t.all[ack.Sequence-1].id, true
}

// letterOf reports whether there is a dead letter of a kind about m: the same identity, and the same body.
func (t *target) letterOf(m *stored, class onefold.Class) bool {
	return slices.ContainsFunc(t.dead, func(p *publication) bool {
		h := p.msg.Header
		if h.Get(consumer.HeaderDeadClass) != string(class) || !bytes.Equal(p.msg.Data, m.msg.Data) {
			return false
		}
		if m.key.IsZero() {
			return h.Get(consumer.HeaderDeadSequence) == formatUint(m.seq)
		}
		return h.Get(consumer.HeaderDeadID) == m.key.ID && genOf(h.Get(consumer.HeaderDeadGen)) == m.key.Gen
	})
}
