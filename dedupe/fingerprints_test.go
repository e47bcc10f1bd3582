package dedupe_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

func message(subject, body string) *onefold.Message {
	return &onefold.Message{Subject: subject, Data: []byte(body)}
}

func TestFingerprintsCoverWhatTheyName(t *testing.T) {
	a := message("orders.1", "pay")
	tests := []struct {
		name      string
		f         dedupe.Fingerprinter
		other     *onefold.Message
		conflicts bool
	}{
		{"subject and body: equal", dedupe.SubjectAndBody, message("orders.1", "pay"), false},
		{"subject and body: other body", dedupe.SubjectAndBody, message("orders.1", "play"), true},
		{"subject and body: other subject", dedupe.SubjectAndBody, message("orders.2", "pay"), true},
		{"subject and body: bytes moved between parts", dedupe.SubjectAndBody, message("orders.1p", "ay"), true},
		{"body only: other subject", dedupe.BodyOnly, message("orders.2", "pay"), false},
		{"body only: other body", dedupe.BodyOnly, message("orders.1", "play"), true},
		{"off: other body", dedupe.Off, message("orders.1", "play"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.conflicts, tt.f(a).Conflicts(tt.f(tt.other)))
		})
	}
}

func TestFingerprintsIgnoreHeadersAndPosition(t *testing.T) {
	a, b := message("s", "b"), message("s", "b")
	b.Header, b.Sequence = onefold.Header{"X": {"1"}}, 9
	assert.Equal(t, dedupe.SubjectAndBody(a), dedupe.SubjectAndBody(b))
}

// The sums are stored: they must stay what they are for ever.
func TestStoredFingerprintsNeverChange(t *testing.T) {
	m := message("orders.new", `{"id":1}`)
	assert.Equal(t, "v1:f7714f1abf1c31ba91c9aabf1c7d7bae", dedupe.SubjectAndBody(m).String())
	assert.Equal(t, "v2:c1b40aa0084db587089aaa2354b93658", dedupe.BodyOnly(m).String())
	assert.Equal(t, "none", dedupe.Off(m).String())
	large := message("orders.new", string(bytes.Repeat([]byte("x"), 5000)))
	assert.Equal(t, "v1:4b1e90a0c1dddf417373c2447bad61d4", dedupe.SubjectAndBody(large).String())
}

func TestShortAndLongBodiesDifferInEveryLength(t *testing.T) {
	seen := map[onefold.Fingerprint]int{}
	for n := range 2100 {
		f := dedupe.BodyOnly(&onefold.Message{Data: make([]byte, n)})
		before, ok := seen[f]
		require.False(t, ok, "bodies of %d and %d bytes", before, n)
		seen[f] = n
	}
}

func TestSelectedKeepsToUserVersions(t *testing.T) {
	firstByte := func(m *onefold.Message) []byte { return m.Data[:1] }
	f, err := dedupe.Selected(64, firstByte)
	require.NoError(t, err)
	assert.Equal(t, f(message("a", "xy")), f(message("b", "xz")))
	assert.True(t, f(message("a", "xy")).Conflicts(f(message("a", "zy"))))
	assert.EqualValues(t, 64, f(message("a", "x")).Version)

	g, err := dedupe.Selected(65, firstByte)
	require.NoError(t, err)
	assert.False(t, f(message("a", "x")).Conflicts(g(message("a", "z"))), "another version never conflicts")

	for _, v := range []uint8{0, 1, 2, 63} {
		_, err = dedupe.Selected(v, firstByte)
		require.ErrorIs(t, err, onefold.ErrInvalid, "version %d", v)
	}
	_, err = dedupe.Selected(64, nil)
	require.ErrorIs(t, err, onefold.ErrInvalid)
}

func TestASmallMessageIsFingerprintedWithoutAllocation(t *testing.T) {
	m := message("orders.new", string(make([]byte, 256)))
	assert.Zero(t, testing.AllocsPerRun(100, func() { dedupe.SubjectAndBody(m) }))
}

func TestBodyFingerprintTellsRequestsApart(t *testing.T) {
	a := dedupe.BodyFingerprint("POST /payments", []byte("1"))
	assert.True(t, a.Conflicts(dedupe.BodyFingerprint("POST /refunds", []byte("1"))))
	assert.True(t, a.Conflicts(dedupe.BodyFingerprint("POST /payments", []byte("2"))))
	assert.Equal(t, a, dedupe.BodyFingerprint("POST /payments", []byte("1")))
}
