package consumer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onefold-go/onefold"
)

// The headers of a dead letter. Its body is the body of the message. Each header of the message is kept
// under HeaderDeadOriginal + its name.
const (
	HeaderDeadReason   = "Onefold-Dead-Reason"
	HeaderDeadClass    = "Onefold-Dead-Class" // see onefold.Class
	HeaderDeadAttempts = "Onefold-Dead-Attempts"
	HeaderDeadStream   = "Onefold-Dead-Stream"
	HeaderDeadConsumer = "Onefold-Dead-Consumer"
	HeaderDeadSubject  = "Onefold-Dead-Subject"
	HeaderDeadSequence = "Onefold-Dead-Sequence"
	HeaderDeadTime     = "Onefold-Dead-Time" // when the stream stored the message, RFC 3339
	HeaderDeadScope    = "Onefold-Dead-Scope"
	HeaderDeadID       = "Onefold-Dead-Id"            // the ID it was deduped by
	HeaderDeadEncoding = "Onefold-Dead-Encoding"      // "base64" if scope and ID could not stand in a header
	HeaderDeadGen      = "Onefold-Dead-Generation"    // absent: 0
	HeaderDeadEarlier  = "Onefold-Dead-Earlier-Error" // reason of the attempt before the last
	HeaderDeadRetain   = "Onefold-Dead-Retention"     // how long the consumer remembers this end of the message, as Go writes durations
	HeaderDeadOriginal = "Onefold-Original-"
	HeaderDeadOthers   = "Onefold-Dead-Other-Headers" // base64 of a JSON object: headers whose name or value cannot be sent as it is

	// HeaderDeadPart is "1/2", "2/2" and so on when message and facts do not fit into one: the first part has
	// the facts as headers and the original headers as a JSON object in its body, the others the body in order.
	HeaderDeadPart = "Onefold-Dead-Part"
	// HeaderDeadOf is, in the further parts, the ID (onefold.HeaderID) of the first.
	HeaderDeadOf = "Onefold-Dead-Of"
)

// deadLetter says why a message is given up.
type deadLetter struct {
	msg      *onefold.Message
	key      onefold.Key // identity of the message, not of the dead letter's own entry
	class    onefold.Class
	reason   string
	attempts int
	earlier  string
}

// entry is what is committed in place of the message's effects. own is the key that it is stored under.
func (l deadLetter) entry(own onefold.Key, f onefold.Fingerprint, subject string, maxPayload int, retain time.Duration) onefold.Entry {
	e := onefold.Entry{Key: own, Fingerprint: f, Outcome: onefold.DeadLettered, Retain: retain}
	facts := l.facts()
	facts[HeaderDeadRetain] = []string{retain.String()}
	whole := l.withOriginals(facts)
	if size := headerBytes(whole); size <= onefold.MaxHeaderBytes && size+len(l.msg.Data) <= maxPayload {
		e.Effects = []onefold.Effect{l.effect(own, 0, subject, whole, l.msg.Data)}
		return e
	}
	originals, _ := json.Marshal(l.msg.Header) // strings always encode
	if len(originals)+headerBytes(facts) > maxPayload {
		originals = originals[:0]
	}
	e.Effects = l.parts(own, subject, facts, originals, maxPayload)
	return e
}

// parts are the effects of a dead letter that is too large for one message: the facts, then the body in as
// many pieces as it takes.
func (l deadLetter) parts(own onefold.Key, subject string, facts onefold.Header, originals []byte, maxPayload int) []onefold.Effect {
	header := func() onefold.Header {
		return onefold.Header{HeaderDeadSequence: facts[HeaderDeadSequence], HeaderDeadStream: facts[HeaderDeadStream],
			HeaderDeadOf: {own.EffectID(0)}}
	}
	room := max(1, maxPayload-headerBytes(header())-len(HeaderDeadPart)-maxPartBytes)
	pieces := slices.Collect(slices.Chunk(l.msg.Data, room))
	all := len(pieces) + 1
	facts[HeaderDeadPart] = []string{fmt.Sprintf("1/%d", all)}
	effects := []onefold.Effect{l.effect(own, 0, subject, facts, originals)}
	for i, piece := range pieces {
		h := header()
		h[HeaderDeadPart] = []string{fmt.Sprintf("%d/%d", i+2, all)}
		effects = append(effects, l.effect(own, i+1, subject, h, piece))
	}
	return effects
}

// maxPartBytes is more than the number of a part takes in a header.
const maxPartBytes = 32

func (l deadLetter) effect(own onefold.Key, index int, subject string, h onefold.Header, body []byte) onefold.Effect {
	return onefold.Effect{ID: own.EffectID(index), Kind: onefold.KindMessage, Target: subject, Header: h, Payload: body}
}

// facts are the headers that tell where the message came from and why it is here.
func (l deadLetter) facts() onefold.Header {
	h := onefold.Header{}
	set := func(name, value string) {
		if value != "" {
			h[name] = []string{value}
		}
	}
	set(HeaderDeadReason, headerText(l.reason))
	set(HeaderDeadClass, string(l.class))
	set(HeaderDeadAttempts, strconv.Itoa(l.attempts))
	set(HeaderDeadEarlier, headerText(l.earlier))
	set(HeaderDeadStream, l.msg.Stream)
	set(HeaderDeadConsumer, l.msg.Consumer)
	set(HeaderDeadSubject, l.msg.Subject)
	set(HeaderDeadSequence, strconv.FormatUint(l.msg.Sequence, 10))
	set(HeaderDeadTime, l.msg.Time.UTC().Format(time.RFC3339Nano))
	scope, id, encoding := encodeIdentity(l.key)
	set(HeaderDeadEncoding, encoding)
	set(HeaderDeadScope, scope)
	if len(id) <= maxDeadID {
		set(HeaderDeadID, id)
	}
	if l.key.Gen > 0 {
		set(HeaderDeadGen, strconv.FormatUint(uint64(l.key.Gen), 10))
	}
	return h
}

// maxDeadID bounds the ID in the facts; a longer one is still among the original headers or in the body.
const maxDeadID = 16 << 10

// withOriginals adds the message's own headers under our prefix, so that none of them controls the
// server again. Headers that no message could be sent with, although this one came with them, are encoded
// together.
func (l deadLetter) withOriginals(facts onefold.Header) onefold.Header {
	h := make(onefold.Header, len(facts)+len(l.msg.Header))
	for name, values := range facts {
		h[name] = values
	}
	others := onefold.Header{}
	for name, values := range l.msg.Header {
		if canBeSent(name, values) {
			h[HeaderDeadOriginal+name] = values
		} else {
			others[name] = values
		}
	}
	if len(others) > 0 {
		h[HeaderDeadOthers] = []string{encodeOthers(others)}
	}
	return h
}

// canBeSent reports whether a header of this name arrives as it was.
func canBeSent(name string, values []string) bool {
	return onefold.IsHeaderName(name) && !slices.ContainsFunc(values, func(v string) bool { return !onefold.IsHeaderValue(v) })
}

// headerBytes is the size of the header block, with room for what the relay adds.
func headerBytes(h onefold.Header) int {
	n := 256
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v) + len(": \r\n")
		}
	}
	return n
}

// headerText makes a reason fit for a header: one line, valid, at most onefold.MaxReasonBytes.
func headerText(s string) string {
	if len(s) > onefold.MaxReasonBytes {
		s = s[:onefold.MaxReasonBytes]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
}

// plain reports whether s may stand in a header as it is and comes back unchanged.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return strings.TrimSpace(s) == s
}

// commitDeadLetter commits a dead letter in place of the message's effects. It is refused like them if what the
// handler has read has moved: a handler that gave up on a state that never was gets another look. A message that is
// parked is kept as a dead letter too, or nobody could look at it; its outcome says that it may have been done.
func (s *session) commitDeadLetter(d *delivery, v verdict, cause error) {
	d.class, d.cause = v.class, cause
	letter := deadLetter{msg: &d.msg, key: d.identity, class: v.class, reason: v.reason, attempts: d.attempt, earlier: d.history.LastReason}
	entry := letter.entry(d.key, d.fingerprint, s.cfg.DeadLetterSubject, s.limits.MaxPayload, s.cfg.Retention)
	switch {
	case v.do == actPark:
		entry.Outcome = onefold.ParkedUnknown
	case d.fx != nil: // it has run
		run, _ := d.fx.Seal()
		entry.Reads = run.Reads
	}
	s.hand(d, entry)
}
