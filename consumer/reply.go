package consumer

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

// The headers of requests and their answers. A message that has HeaderReplyTo is answered once its outcome is durable:
// the body is the stored result, HeaderID the message's ID as the store knows it, HeaderReplyOutcome how it ended. Each copy that
// arrives later is answered again from the store. An answer is sent once, over plain NATS: who misses it asks again under
// the same ID, as [Request] does.
const (
	HeaderReplyTo      = "Onefold-Reply-To"
	HeaderReplyOutcome = "Onefold-Reply-Outcome" // onefold.Outcome as text
	HeaderReplyReason  = "Onefold-Reply-Reason"  // why there is no result
)

// Reasons for an answer without a result.
const (
	reasonNotKept  = "the result is not kept"
	reasonTooLarge = "the result is larger than a message may be"
)

// result is what a delivery's answer consists of, besides its outcome.
type result struct {
	body   []byte
	reason string // why there is none
}

// resultOf is the result that a record holds.
func resultOf(r *onefold.Record) result {
	if !r.ResultKept && r.Outcome == onefold.Succeeded && len(r.Result) == 0 {
		return result{reason: reasonNotKept}
	}
	return result{body: r.Result}
}

// reply answers whoever has asked for the outcome of d.
func (s *session) reply(d *delivery) {
	if len(d.msg.Header[HeaderReplyTo]) == 0 || d.outcome == 0 {
		return
	}
	m := replyTo(d, s.cfg.ReplyPrefix, s.limits.MaxPayload)
	if m == nil || s.js == nil { // in a Rehearsal nobody waits for an answer
		return
	}
	// Losing an answer costs the requester another request.
	if err := s.js.Conn().PublishMsg(m); err != nil {
		s.pullTrouble(err)
	}
}

// replyTo makes the answer, or nil if the subject that it is asked for is none that answers may go to: a message must
// not be able to have anything published anywhere.
func replyTo(d *delivery, prefix string, maxPayload int) *nats.Msg {
	subject := d.msg.Header.Get(HeaderReplyTo)
	if !strings.HasPrefix(subject, prefix) || onefold.CheckSubject(subject) != nil {
		return nil
	}
	m := &nats.Msg{Subject: subject, Data: d.result.body, Header: nats.Header{
		HeaderReplyOutcome: {d.outcome.String()},
		// A stream that takes answers must take the second one, too.
		dedupe.HeaderTransportID: {nats.NewInbox()},
	}}
	reason := d.result.reason
	if d.outcome != onefold.Succeeded && d.cause != nil {
		reason = d.cause.Error()
	}
	if id := d.identity.ID; plain(id) && len(id) <= maxDeadID {
		m.Header[onefold.HeaderID] = []string{id}
	}
	if len(m.Data)+headerBytes(onefold.Header(m.Header))+onefold.MaxReasonBytes > maxPayload {
		m.Data, reason = nil, reasonTooLarge
	}
	if reason != "" {
		m.Header[HeaderReplyReason] = []string{headerText(reason)}
	}
	return m
}
