package consumer

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// sentAs is how a dead letter arrives in its stream, from position 7 on.
func sentAs(l deadLetter, own onefold.Key, maxPayload int) (messages []*onefold.Message) {
	e := l.entry(own, onefold.Fingerprint{}, "dead", maxPayload, time.Hour)
	for i, f := range e.Effects {
		h := onefold.Header{onefold.HeaderID: {f.ID}}
		for name, values := range f.Header {
			h[name] = values
		}
		messages = append(messages, &onefold.Message{Subject: f.Target, Header: h, Data: f.Payload, Stream: "DEAD", Sequence: uint64(7 + i), Time: time.Unix(100, 0)})
	}
	return messages
}

func TestALetterIsReadAsTheConsumerWroteIt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*deadLetter)
		limit  int
		parts  int
	}{
		"in one piece":               {func(*deadLetter) {}, 1 << 20, 1},
		"in several":                 {func(*deadLetter) {}, 2000, 8},
		"an ID that is encoded":      {func(l *deadLetter) { l.key.ID = "\x00\xff\n" }, 1 << 20, 1},
		"no ID":                      {func(l *deadLetter) { l.key = onefold.Key{} }, 1 << 20, 1},
		"no reason":                  {func(l *deadLetter) { l.reason, l.earlier = "", "" }, 1 << 20, 1},
		"headers that do not travel": {func(l *deadLetter) { l.msg.Header["Größe"] = []string{"XL"}; l.msg.Header["Padded"] = []string{" x"} }, 1 << 20, 1},
		"headers and no body": {func(l *deadLetter) {
			l.msg.Data, l.msg.Header["Large"] = nil, []string{strings.Repeat("x", onefold.MaxHeaderBytes-300)}
		}, 1 << 20, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := letter(10_000)
			l.msg.Data[9_999] = 7
			l.reason = "it failed"
			c.change(&l)
			messages := sentAs(l, ownKey, c.limit)
			require.Len(t, messages, c.parts)
			first := messages[0]
			messages = append(messages[1:], first, first) // in another order, and one twice
			got, err := ParseLetter(messages...)
			require.NoError(t, err)
			assert.Equal(t, l.key, got.Key)
			assert.Equal(t, *l.msg, got.Message)
			assert.Equal(t, []any{l.reason, l.earlier, l.class, l.attempts, time.Hour}, []any{got.Reason, got.EarlierReason, got.Class, got.Attempts, got.Retention})
			assert.Equal(t, []any{"DEAD", uint64(7), time.Unix(100, 0)}, []any{got.Stream, got.Sequence, got.Time})
			assert.Len(t, got.parts, c.parts)
			assert.Empty(t, got.History)
			assert.False(t, got.HeadersLost)
		})
	}
}

func TestWhatIsNoLetterIsRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]*onefold.Message) []*onefold.Message
		says   string
	}{
		"nothing":                   {func([]*onefold.Message) []*onefold.Message { return nil }, "there are no parts"},
		"a message of another kind": {func(m []*onefold.Message) []*onefold.Message { m[0].Header = nil; return m[:1] }, "message 7 of stream DEAD: header Onefold-Dead-Stream is missing"},
		"no consumer":               {without(HeaderDeadConsumer), "Onefold-Dead-Consumer is missing"},
		"no class":                  {without(HeaderDeadClass), "Onefold-Dead-Class is missing"},
		"a position in words":       {with(HeaderDeadSequence, "many"), `Onefold-Dead-Sequence is "many"`},
		"position 0":                {with(HeaderDeadSequence, "0"), `Onefold-Dead-Sequence is "0"`},
		"a time in words":           {with(HeaderDeadTime, "noon"), "Onefold-Dead-Time"},
		"attempts in words":         {with(HeaderDeadAttempts, "some"), "Onefold-Dead-Attempts"},
		"a retention without unit":  {with(HeaderDeadRetain, "5"), "Onefold-Dead-Retention"},
		"another encoding":          {with(HeaderDeadEncoding, "rot13"), `Onefold-Dead-Encoding is "rot13"; known: base64`},
		"an ID that is not encoded": {with(HeaderDeadEncoding, "base64"), "Onefold-Dead-"},
		"a generation below 0":      {with(HeaderDeadGen, "-1"), "Onefold-Dead-Generation"},
		"a part beyond the last":    {with(HeaderDeadPart, "9/8"), `Onefold-Dead-Part is "9/8"`},
		"a part without a number":   {with(HeaderDeadPart, "x"), `Onefold-Dead-Part is "x"`},
		"other headers in plain":    {with(HeaderDeadOthers, "!"), "Onefold-Dead-Other-Headers"},
		"missing parts":             {func(m []*onefold.Message) []*onefold.Message { return m[:2] }, "of 8 parts 3, 4, 5, 6, and 2 more are missing"},
		"without the first":         {func(m []*onefold.Message) []*onefold.Message { return m[1:] }, "of 8 parts 1 are missing"},
		"a part of another letter": {func(m []*onefold.Message) []*onefold.Message {
			m[3].Header[HeaderDeadOf] = []string{"other"}
			return m
		}, "another part"},
		"garbage for headers": {func(m []*onefold.Message) []*onefold.Message { m[0].Data = []byte("x"); return m }, "headers in the body"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := 1 << 20
			if strings.Contains(c.says, "part") || strings.Contains(c.says, "body") {
				limit = 2000
			}
			_, err := ParseLetter(c.change(sentAs(letter(10_000), ownKey, limit))...)
			require.ErrorIs(t, err, ErrNotLetter)
			assert.ErrorContains(t, err, c.says)
		})
	}
}

func without(name string) func([]*onefold.Message) []*onefold.Message {
	return func(m []*onefold.Message) []*onefold.Message { delete(m[0].Header, name); return m }
}

func with(name, value string) func([]*onefold.Message) []*onefold.Message {
	return func(m []*onefold.Message) []*onefold.Message { m[0].Header[name] = []string{value}; return m }
}

func TestAFilterSelectsWhatFitsEachOfItsFields(t *testing.T) {
	at := time.Unix(1000, 0)
	l := &Letter{Time: at, Reason: "attempt 3 of 3: no such account", Class: onefold.ClassHandler, Key: onefold.Key{ID: "7"},
		Message: onefold.Message{Stream: "IN", Consumer: "work"}}
	for name, c := range map[string]struct {
		filter LetterFilter
		want   bool
	}{
		"nothing set":        {LetterFilter{}, true},
		"everything":         {LetterFilter{Stream: "IN", Consumer: "work", Class: onefold.ClassHandler, Reason: "no such", ID: "7", Since: at, Before: at.Add(1)}, true},
		"another stream":     {LetterFilter{Stream: "OUT"}, false},
		"another consumer":   {LetterFilter{Consumer: "wor"}, false},
		"another class":      {LetterFilter{Class: onefold.ClassPanic}, false},
		"another reason":     {LetterFilter{Reason: "No such"}, false},
		"another ID":         {LetterFilter{ID: "70"}, false},
		"it came before":     {LetterFilter{Since: at.Add(1)}, false},
		"it came at the end": {LetterFilter{Before: at}, false},
	} {
		assert.Equal(t, c.want, c.filter.selects(l), name)
	}
}

func TestPartsOfSeveralLettersAreToldApart(t *testing.T) {
	other := onefold.Key{Scope: "IN/work", ID: "two"}
	one, two := sentAs(letter(3000), ownKey, 2000), sentAs(letter(3000), other, 2000)
	require.Len(t, one, 3)
	small := sentAs(letter(3), other, 2000)
	var a assembly
	for _, m := range []*onefold.Message{one[2], two[0], one[0], one[0], two[1]} {
		assert.Nil(t, a.add(m))
	}
	assert.Equal(t, small, a.add(small[0]), "one that is whole")
	l, err := ParseLetter(a.add(one[1])...)
	require.NoError(t, err)
	assert.Len(t, l.Message.Data, 3000)
	assert.Nil(t, a.add(one[0]), "a copy that comes late")
	rest := a.rest()
	require.Len(t, rest, 1)
	_, err = ParseLetter(rest[0]...)
	require.ErrorContains(t, err, "of 3 parts 3 are missing")
}

func TestHeadersOfAnotherConsumersRedriveTellNothing(t *testing.T) {
	past, err := json.Marshal(PastGeneration{Reason: "before"})
	require.NoError(t, err)
	for to, want := range map[string]int{"IN/work": 1, "IN/other": 0, "OUT/work": 0} {
		l := letter(1)
		l.msg.Header = onefold.Header{HeaderRedriveFor: {to}, HeaderRedriveOrigin: {"3/4"}, HeaderRedriveHistory: {string(past), "garbage"}, "Mine": {"1"}}
		got, err := ParseLetter(sentAs(l, ownKey, 1<<20)...)
		require.NoError(t, err)
		assert.Len(t, got.History, want, to)
		assert.Equal(t, want == 1, got.origin == sample{3, 4}, to)
		assert.Equal(t, onefold.Header{"Mine": {"1"}}, got.Message.Header, to)
	}
}
