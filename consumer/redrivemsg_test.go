package consumer

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

// read is a dead letter as a reader has it.
func read(t *testing.T, change func(*deadLetter)) *Letter {
	t.Helper()
	l := letter(10)
	if change != nil {
		change(&l)
	}
	got, err := ParseLetter(sentAs(l, ownKey, 1<<20)...)
	require.NoError(t, err)
	return got
}

func TestARedrivenMessageIsTheMessageOfTheNextGeneration(t *testing.T) {
	l := read(t, func(l *deadLetter) { l.msg.Header["Nats-Rollup"] = []string{"all"} })
	m, err := redriveMessage(l, 1<<20)
	require.NoError(t, err)
	assert.Equal(t, "in.a", m.Subject)
	assert.Equal(t, l.Message.Data, m.Data)
	h := onefold.Header(m.Header)
	assert.Equal(t, []string{"a", "b"}, h["Trace"])
	assert.NotContains(t, h, "Nats-Rollup", "would control the server")
	assert.Equal(t, "IN", h.Get("Nats-Expected-Stream"))
	assert.NotEqual(t, "t1", h.Get(dedupe.HeaderTransportID))
	assert.Equal(t, "t1", h.Get(onefold.HeaderID), "what consumers of copies of the stream know it by")

	c := Config{Stream: "IN", Name: "work"}
	received := &onefold.Message{Header: h}
	assert.Equal(t, toUs, c.addressee(received))
	o, err := readOrder(h)
	require.NoError(t, err)
	assert.Equal(t, onefold.Key{Scope: "IN/work", ID: "one", Gen: 3}, o.key)
	assert.Equal(t, sample{Sequence: 42, Time: time.Unix(1, 5).UnixNano()}, o.origin)
	o.restore(h)
	for name, values := range l.Message.Header {
		assert.Equal(t, values, h[name], "the handler sees it as it was")
	}
}

func TestTheTransportIDIsOneForEachGenerationAndContent(t *testing.T) {
	id := func(change func(*deadLetter)) string {
		m, err := redriveMessage(read(t, change), 1<<20)
		require.NoError(t, err)
		return m.Header.Get(dedupe.HeaderTransportID)
	}
	one := id(nil)
	assert.Equal(t, one, id(nil))
	assert.Equal(t, one, id(func(l *deadLetter) { l.reason, l.msg.Sequence = "other", 43 }), "another letter of the same work")
	seen := map[string]string{"": "none"}
	for name, change := range map[string]func(*deadLetter){
		"itself":                  nil,
		"another ID":              func(l *deadLetter) { l.key.ID = "two" },
		"another generation":      func(l *deadLetter) { l.key.Gen = 3 },
		"another scope":           func(l *deadLetter) { l.key.Scope = "IN/other" },
		"a reused ID":             func(l *deadLetter) { l.msg.Data = []byte("other") },
		"no ID":                   func(l *deadLetter) { l.key = onefold.Key{} },
		"no ID, elsewhere":        func(l *deadLetter) { l.key, l.msg.Sequence = onefold.Key{}, 43 },
		"an ID that was too long": func(l *deadLetter) { l.key.ID = strings.Repeat("x", maxDeadID+1) },
	} {
		assert.Empty(t, seen[id(change)], name)
		seen[id(change)] = name
	}
}

func TestTheNextGenerationOfALetter(t *testing.T) {
	for name, c := range map[string]struct{ key, want onefold.Key }{
		"ordinary":          {onefold.Key{Scope: "S", ID: "1"}, onefold.Key{Scope: "S", ID: "1", Gen: 1}},
		"redriven before":   {onefold.Key{Scope: "S", ID: "1", Gen: 4}, onefold.Key{Scope: "S", ID: "1", Gen: 5}},
		"ID not kept":       {onefold.Key{Scope: "S"}, onefold.Key{Scope: "S", Gen: 1}},
		"never had an ID":   {onefold.Key{}, onefold.Key{}},
		"the last one left": {onefold.Key{Scope: "S", ID: "1", Gen: math.MaxUint32 - 1}, onefold.Key{Scope: "S", ID: "1", Gen: math.MaxUint32}},
	} {
		got, err := (&Letter{Key: c.key}).Next()
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got, name)
	}
	_, err := (&Letter{Key: onefold.Key{Scope: "S", ID: "1", Gen: math.MaxUint32}}).Next()
	require.ErrorIs(t, err, onefold.ErrInvalid)
}

func TestAHistoryKeepsTheFirstAndTheLatest(t *testing.T) {
	l := &Letter{Key: onefold.Key{Gen: 99}, Reason: "last"}
	for n := range 99 {
		l.History = append(l.History, PastGeneration{Gen: uint32(n), Reason: fmt.Sprint("reason ", n)})
	}
	lines := encodeHistory(l)
	require.Len(t, lines, maxHistory)
	var first, second, last PastGeneration
	for line, past := range map[string]*PastGeneration{lines[0]: &first, lines[1]: &second, lines[maxHistory-1]: &last} {
		require.NoError(t, json.Unmarshal([]byte(line), past))
	}
	assert.EqualValues(t, []uint32{0, 99 - maxHistory + 2, 99}, []uint32{first.Gen, second.Gen, last.Gen})
	assert.Equal(t, "last", last.Reason)
	assert.Len(t, l.History, 99)
}

func TestAMessageThatNoLongerFitsIsRefusedWithTheNumbers(t *testing.T) {
	l := read(t, nil)
	m, err := redriveMessage(l, 1<<20)
	require.NoError(t, err)
	require.Contains(t, m.Header, HeaderRedriveHistory)
	size := headerBytes(onefold.Header(m.Header)) - 256 + headerBlockFrame + len(m.Data)

	m, err = redriveMessage(l, int64(size))
	require.NoError(t, err)
	assert.Contains(t, m.Header, HeaderRedriveHistory)
	m, err = redriveMessage(l, int64(size-1))
	require.NoError(t, err)
	assert.NotContains(t, m.Header, HeaderRedriveHistory, "goes first")
	_, err = redriveMessage(l, 100)
	require.ErrorIs(t, err, onefold.ErrTooLarge)
	assert.ErrorContains(t, err, "max_payload is 100")

	l.Message.Header["Large"] = []string{strings.Repeat("x", maxHeaderBlock)}
	_, err = redriveMessage(l, 1<<20)
	require.ErrorIs(t, err, onefold.ErrTooLarge)
	assert.ErrorContains(t, err, "65535")

	l.HeadersLost = true
	_, err = redriveMessage(l, 1<<20)
	require.ErrorIs(t, err, onefold.ErrInvalid)
	l = read(t, nil)
	l.Message.Subject = "in.*"
	_, err = redriveMessage(l, 1<<20)
	require.ErrorIs(t, err, onefold.ErrInvalid)
}

func TestWhomAMessageIsFor(t *testing.T) {
	c := Config{Stream: "IN", Name: "work"}
	for named, want := range map[string]addressee{
		"IN/work": toUs, "IN/other": toAnother, "OUT/work": toAll, "OUT/other": toAll, "IN": toAll, "IN/": toAll, "": toAll, "in/work": toAll, "IN/work/x": toAnother,
	} {
		assert.Equal(t, want, c.addressee(&onefold.Message{Header: onefold.Header{HeaderRedriveFor: {named}}}), named)
	}
	assert.Equal(t, toAll, c.addressee(&onefold.Message{}))
}

func TestRedriveHeadersThatCannotBeAreNamed(t *testing.T) {
	for name, value := range map[string]string{
		HeaderRedriveGen: "0", HeaderRedriveScope: "", HeaderRedriveOrigin: "1", HeaderRedriveEncoding: "rot13", HeaderRedriveOthers: "!", HeaderRedriveID: "ä",
	} {
		m, err := redriveMessage(read(t, nil), 1<<20)
		require.NoError(t, err)
		if name == HeaderRedriveID {
			m.Header[HeaderRedriveEncoding] = []string{"base64"}
			m.Header[HeaderRedriveScope] = []string{""}
		}
		m.Header[name] = []string{value}
		_, err = readOrder(onefold.Header(m.Header))
		assert.ErrorContains(t, err, name)
	}
	for _, gen := range []string{"x", "-1", "4294967296"} {
		_, err := readOrder(onefold.Header{HeaderRedriveGen: {gen}, HeaderRedriveOrigin: {"1/1"}})
		assert.ErrorContains(t, err, HeaderRedriveGen)
	}
}
