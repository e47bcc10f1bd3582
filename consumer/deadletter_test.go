package consumer

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func letter(data int) deadLetter {
	return deadLetter{
		msg: &onefold.Message{Subject: "in.a", Stream: "IN", Consumer: "work", Sequence: 42, Time: time.Unix(1, 5).UTC(),
			Header: onefold.Header{"Nats-Msg-Id": {"t1"}, "Nats-Expected-Stream": {"IN"}, "Trace": {"a", "b"}}, Data: make([]byte, data)},
		key: onefold.Key{Scope: "IN/work", ID: "one", Gen: 2}, class: onefold.ClassHandler, reason: "it\r\nfailed", attempts: 3, earlier: "before",
	}
}

var ownKey = onefold.Key{Scope: "IN/work\x00mismatch", ID: "one\x00v1"}

func TestADeadLetterHoldsTheMessageAndTheFacts(t *testing.T) {
	l := letter(10)
	e := l.entry(ownKey, onefold.Fingerprint{Version: 1}, "dead", 1<<20, time.Hour)
	assert.Equal(t, ownKey, e.Key)
	assert.Equal(t, onefold.DeadLettered, e.Outcome)
	assert.Equal(t, time.Hour, e.Retain)
	require.Len(t, e.Effects, 1)
	f := e.Effects[0]
	assert.Equal(t, ownKey.EffectID(0), f.ID)
	assert.Equal(t, "dead", f.Target)
	assert.Equal(t, l.msg.Data, f.Payload)
	assert.Equal(t, onefold.Header{
		HeaderDeadReason: {"it  failed"}, HeaderDeadClass: {"handler"}, HeaderDeadAttempts: {"3"}, HeaderDeadEarlier: {"before"},
		HeaderDeadStream: {"IN"}, HeaderDeadConsumer: {"work"}, HeaderDeadSubject: {"in.a"}, HeaderDeadSequence: {"42"},
		HeaderDeadTime: {"1970-01-01T00:00:01.000000005Z"}, HeaderDeadScope: {"IN/work"}, HeaderDeadID: {"one"}, HeaderDeadGen: {"2"}, HeaderDeadRetain: {"1h0m0s"},
		"Onefold-Original-Nats-Msg-Id": {"t1"}, "Onefold-Original-Nats-Expected-Stream": {"IN"}, "Onefold-Original-Trace": {"a", "b"},
	}, f.Header)
	for name := range f.Header {
		assert.False(t, strings.HasPrefix(name, "Nats-"), "%s would control the server", name)
	}
}

func TestADeadLetterThatIsTooLargeGoesInPartsThatFit(t *testing.T) {
	for name, c := range map[string]struct{ data, header, limit, parts int }{
		"body and headers together":      {1 << 20, 0, 1<<20 + 450, 2},
		"a body that fills a message":    {1 << 20, 0, 1 << 20, 3},
		"headers that fill their block":  {10, onefold.MaxHeaderBytes - 300, 1 << 20, 2},
		"a body of many times the limit": {10_000, 0, 2_000, 8},
	} {
		t.Run(name, func(t *testing.T) {
			l := letter(c.data)
			l.msg.Data[c.data-1] = 7
			l.msg.Header["Large"] = []string{strings.Repeat("x", c.header)}
			e := l.entry(ownKey, onefold.Fingerprint{}, "dead", c.limit, time.Hour)
			require.Len(t, e.Effects, c.parts)
			var body []byte
			for i, f := range e.Effects {
				assert.Equal(t, ownKey.EffectID(i), f.ID)
				assert.LessOrEqual(t, headerBytes(f.Header)+len(f.Payload), c.limit)
				assert.LessOrEqual(t, headerBytes(f.Header), onefold.MaxHeaderBytes)
				assert.Equal(t, []string{"42"}, f.Header[HeaderDeadSequence])
				if i > 0 {
					body = append(body, f.Payload...)
				}
			}
			assert.Equal(t, l.msg.Data, body)
			assert.Equal(t, "handler", e.Effects[0].Header.Get(HeaderDeadClass))
			var originals onefold.Header
			require.NoError(t, json.Unmarshal(e.Effects[0].Payload, &originals))
			assert.Equal(t, l.msg.Header, originals)
		})
	}
}

func TestAnIDThatCannotStandInAHeaderIsEncoded(t *testing.T) {
	for name, c := range map[string]struct {
		id      string
		encoded bool
	}{
		"plain": {"order-1", false}, "blank at the end": {"order ", true}, "line break": {"a\nb", true}, "binary": {"\x00\xff", true}, "unicode": {"ü", true},
		"long": {strings.Repeat("x", 10<<10), false}, "long and binary": {strings.Repeat("\x01", 10<<10), true},
	} {
		t.Run(name, func(t *testing.T) {
			l := letter(1)
			l.key.ID = c.id
			h := l.facts()
			got := h.Get(HeaderDeadID)
			if c.encoded {
				assert.Equal(t, "base64", h.Get(HeaderDeadEncoding))
				b, err := base64.StdEncoding.DecodeString(got)
				require.NoError(t, err)
				got = string(b)
			}
			assert.Equal(t, c.id, got)
		})
	}
	l := letter(1)
	l.key.ID = strings.Repeat("x", maxDeadID+1)
	assert.Empty(t, l.facts()[HeaderDeadID], "too long for the facts")
}

func TestAReasonIsOneLineOfBoundedLength(t *testing.T) {
	assert.Equal(t, "a b c", headerText("a\nb\tc"))
	assert.Equal(t, "a b", headerText("a\xffb"))
	assert.Equal(t, "größer", headerText("größer"))
	assert.Len(t, headerText(strings.Repeat("x", 5000)), onefold.MaxReasonBytes)
	assert.LessOrEqual(t, len(headerText(strings.Repeat("ü", 5000))), onefold.MaxReasonBytes+1)
}

func TestHeadersThatCannotBeSentAgainAreKeptEncoded(t *testing.T) {
	odd := onefold.Header{"App/Tenant": {"7"}, "Padded": {" x"}, "Größe": {"XL"}}
	m := &onefold.Message{Subject: "in.a", Header: onefold.Header{"Fine": {"1"}}}
	for name, values := range odd {
		m.Header[name] = values
	}
	e := deadLetter{msg: m}.entry(onefold.Key{Scope: "S", ID: "1"}, onefold.Fingerprint{}, "dead", 1<<20, time.Hour)
	h := e.Effects[0].Header
	for name, values := range h {
		assert.True(t, onefold.IsHeaderName(name), "%q", name)
		for _, v := range values {
			assert.True(t, onefold.IsHeaderValue(v), "%q", v)
		}
	}
	assert.Equal(t, "1", h.Get(HeaderDeadOriginal+"Fine"))
	encoded, err := base64.StdEncoding.DecodeString(h.Get(HeaderDeadOthers))
	require.NoError(t, err)
	var others onefold.Header
	require.NoError(t, json.Unmarshal(encoded, &others))
	assert.Equal(t, odd, others)
}
