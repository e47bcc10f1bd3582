package dedupe_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

func withHeader(pairs ...string) *onefold.Message {
	m := &onefold.Message{Header: onefold.Header{}}
	for i := 0; i < len(pairs); i += 2 {
		m.Header[pairs[i]] = append(m.Header[pairs[i]], pairs[i+1])
	}
	return m
}

func TestDefaultIDPrefersTheMessagesOwnID(t *testing.T) {
	tests := []struct {
		name string
		msg  *onefold.Message
		want string // "" means ErrMissingID
	}{
		{"own ID", withHeader("Onefold-Id", "a"), "a"},
		{"transport ID", withHeader("Nats-Msg-Id", "b"), "b"},
		{"own before transport", withHeader("Nats-Msg-Id", "b", "Onefold-Id", "a"), "a"},
		{"blank own ID falls back", withHeader("Nats-Msg-Id", "b", "Onefold-Id", " \t"), "b"},
		{"surrounding blanks are trimmed", withHeader("Nats-Msg-Id", "  b\t"), "b"},
		{"inner blanks stay", withHeader("Nats-Msg-Id", "b c"), "b c"},
		{"first value counts", withHeader("Nats-Msg-Id", "b", "Nats-Msg-Id", "c"), "b"},
		{"first value counts even if it is blank", withHeader("Nats-Msg-Id", " ", "Nats-Msg-Id", "c"), ""},
		{"names are case-sensitive", withHeader("nats-msg-id", "b"), ""},
		{"only blanks", withHeader("Nats-Msg-Id", " \r\n\t"), ""},
		{"no header", &onefold.Message{}, ""},
		{"binary, with bytes that are spaces elsewhere", withHeader("Nats-Msg-Id", "\u00a0x\xff"), "\u00a0x\xff"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := dedupe.DefaultID(tt.msg)
			if tt.want == "" {
				require.ErrorIs(t, err, dedupe.ErrMissingID)
				assert.Contains(t, err.Error(), "missing id")
				assert.Empty(t, id)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, id)
		})
	}
}

func TestHeaderIDTakesTheFirstNamedHeaderThatIsNotBlank(t *testing.T) {
	source := dedupe.HeaderID("Order-Id", "Request-Id")
	id, err := source(withHeader("Request-Id", "r", "Order-Id", "o"))
	require.NoError(t, err)
	assert.Equal(t, "o", id)
	id, err = source(withHeader("Request-Id", "r", "Order-Id", ""))
	require.NoError(t, err)
	assert.Equal(t, "r", id)
	_, err = source(withHeader("Nats-Msg-Id", "b"))
	require.ErrorIs(t, err, dedupe.ErrMissingID)
	assert.Contains(t, err.Error(), "Order-Id, Request-Id")
}

func TestHeaderIDWithoutANameRefusesEveryMessage(t *testing.T) {
	for _, source := range []dedupe.IDSource{dedupe.HeaderID(), dedupe.HeaderID(""), dedupe.HeaderID("A", " ")} {
		_, err := source(withHeader("A", "x"))
		require.ErrorIs(t, err, onefold.ErrInvalid)
		require.NotErrorIs(t, err, dedupe.ErrMissingID, "the message is not at fault")
	}
}

func TestFirstOfWithoutASourceRefusesEveryMessage(t *testing.T) {
	for _, source := range []dedupe.IDSource{
		dedupe.FirstOf(), dedupe.FirstOf(nil), dedupe.FirstOf(dedupe.DefaultID, nil), dedupe.FirstOf(dedupe.HeaderID(), dedupe.DefaultID),
	} {
		_, err := source(withHeader("Nats-Msg-Id", "x"))
		require.ErrorIs(t, err, onefold.ErrInvalid)
		require.NotErrorIs(t, err, dedupe.ErrMissingID, "the message is not at fault")
	}
}

func TestASourceThatCanNeverWorkIsFoundWithoutAMessage(t *testing.T) {
	for name, source := range map[string]dedupe.IDSource{
		"nil": nil, "no name": dedupe.HeaderID(), "blank name": dedupe.HeaderID(" "),
		"no source": dedupe.FirstOf(), "nil source": dedupe.FirstOf(nil),
		"a wrong one behind a good one": dedupe.FirstOf(dedupe.DefaultID, dedupe.HeaderID("")),
		"a function that says so":       func(*onefold.Message) (string, error) { return "", fmt.Errorf("no pattern: %w", onefold.ErrInvalid) },
	} {
		require.ErrorIs(t, dedupe.CheckSource(source), onefold.ErrInvalid, name)
	}
}

func TestAWellMadeSourceIsNeverRefusedForAnEmptyMessage(t *testing.T) {
	for name, source := range map[string]dedupe.IDSource{
		"default": dedupe.DefaultID, "position": dedupe.PositionID, "header": dedupe.HeaderID("A"),
		"first of":         dedupe.FirstOf(dedupe.HeaderID("A", "B"), dedupe.DefaultID, dedupe.PositionID),
		"constant":         func(*onefold.Message) (string, error) { return "x", nil },
		"other error":      func(*onefold.Message) (string, error) { return "", errors.New("no JSON") },
		"index of nothing": func(m *onefold.Message) (string, error) { return string(m.Data[3:9]), nil },
		"panic with an invalid argument": func(*onefold.Message) (string, error) {
			panic(onefold.ErrInvalid)
		},
		"an invalid body as a missing ID": func(*onefold.Message) (string, error) {
			return "", fmt.Errorf("%w: %w", dedupe.ErrMissingID, onefold.ErrInvalid)
		},
	} {
		require.NoError(t, dedupe.CheckSource(source), name)
	}
}

func TestPositionIDTellsStoredMessagesApart(t *testing.T) {
	at := time.Unix(0, 1234567890123456789)
	m := &onefold.Message{Stream: "ORDERS", Sequence: 7, Time: at}
	id, err := dedupe.PositionID(m)
	require.NoError(t, err)
	assert.Equal(t, "ORDERS/7/1234567890123456789", id)

	again, err := dedupe.PositionID(m)
	require.NoError(t, err)
	assert.Equal(t, id, again, "a redelivery has the same ID")

	other, err := dedupe.PositionID(&onefold.Message{Stream: "ORDERS", Sequence: 7, Time: at.Add(1)})
	require.NoError(t, err)
	assert.NotEqual(t, id, other, "a sequence given out again is another message")

	_, err = dedupe.PositionID(&onefold.Message{})
	require.ErrorIs(t, err, dedupe.ErrMissingID)
}

func TestFirstOfTakesTheFirstIDAndStopsAtRealErrors(t *testing.T) {
	broken := errors.New("broken")
	fails := func(*onefold.Message) (string, error) { return "", broken }
	here := &onefold.Message{Stream: "S", Sequence: 1, Time: time.Unix(0, 5)}

	id, err := dedupe.FirstOf(dedupe.DefaultID, dedupe.PositionID)(here)
	require.NoError(t, err)
	assert.Equal(t, "S/1/5", id)

	_, err = dedupe.FirstOf(dedupe.DefaultID, fails, dedupe.PositionID)(here)
	require.ErrorIs(t, err, broken)

	_, err = dedupe.FirstOf(dedupe.DefaultID)(here)
	require.ErrorIs(t, err, dedupe.ErrMissingID)
}
