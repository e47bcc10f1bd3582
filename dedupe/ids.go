package dedupe

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/safecall"
)

// ErrMissingID reports that a message carries no ID where its source looks, or a blank one. Two such
// messages have nothing in common: an ID must never be derived from the missing part.
var ErrMissingID = errors.New("missing id")

// HeaderTransportID is the ID that JetStream itself dedupes by within its window.
const HeaderTransportID = "Nats-Msg-Id"

// IDSource finds the ID of a message. It must be a pure function: a redelivery and a republished copy must
// give the same ID. It returns an error that wraps ErrMissingID if there is none. Any bytes are allowed in
// an ID; there is no limit on its length here.
//
// A source must never return "" without an error. An error that wraps [onefold.ErrInvalid] says that the
// source itself is wrong and finds no ID in any message; see [CheckSource].
type IDSource func(*onefold.Message) (string, error)

// blanks are the bytes that the server trims from header values. Only ASCII is trimmed: an ID may be
// binary, and two IDs that differ in other bytes must stay two.
const blanks = " \t\r\n\v\f"

// DefaultID is the header Onefold-Id, else Nats-Msg-Id. The first comes first because a redriven or
// replayed message needs a fresh transport ID while its own ID stays.
func DefaultID(m *onefold.Message) (string, error) {
	if id := headerID(m, onefold.HeaderID); id != "" {
		return id, nil
	}
	if id := headerID(m, HeaderTransportID); id != "" {
		return id, nil
	}
	return "", fmt.Errorf("%w: neither header %s nor %s is set", ErrMissingID, onefold.HeaderID, HeaderTransportID)
}

// HeaderID takes the ID from the first of the named headers that is there and not blank. Names are
// case-sensitive, as in NATS. Of several values of one header the first counts. Surrounding blanks are
// trimmed, as the server does. Without a name, or with an empty one, the source is wrong: it refuses every
// message with [onefold.ErrInvalid], and [CheckSource] reports it.
func HeaderID(names ...string) IDSource {
	err := checkNames(names)
	return func(m *onefold.Message) (string, error) {
		if err != nil {
			return "", err
		}
		for _, name := range names {
			if id := headerID(m, name); id != "" {
				return id, nil
			}
		}
		return "", fmt.Errorf("%w: header %s is not set", ErrMissingID, strings.Join(names, ", "))
	}
}

func checkNames(names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("%w: HeaderID has no header name; give one", onefold.ErrInvalid)
	}
	for i, name := range names {
		if strings.Trim(name, blanks) == "" {
			return fmt.Errorf("%w: HeaderID: name %d is %q; give the header's name", onefold.ErrInvalid, i, name)
		}
	}
	return nil
}

// PositionID is stream, sequence and time of storage in nanoseconds: an explicit fallback, never used by
// default. It tells redeliveries of one stored message apart from other messages, and nothing more: a
// message that its sender published twice has two positions. The time is part of it because a stream that
// lost its tail gives the same sequence to another message.
func PositionID(m *onefold.Message) (string, error) {
	if m.Stream == "" || m.Sequence == 0 {
		return "", fmt.Errorf("%w: the message has no stream position", ErrMissingID)
	}
	return m.Stream + "/" + strconv.FormatUint(m.Sequence, 10) + "/" + strconv.FormatInt(m.Time.UnixNano(), 10), nil
}

// FirstOf asks sources in order and takes the first ID. A source that fails with anything but ErrMissingID
// ends the search with that error. FirstOf(DefaultID, PositionID) accepts messages without an ID. Without a
// source, or with a nil one, it refuses every message with [onefold.ErrInvalid].
func FirstOf(sources ...IDSource) IDSource {
	err := checkSources(sources)
	return func(m *onefold.Message) (string, error) {
		if err != nil {
			return "", err
		}
		var missing error
		for _, source := range sources {
			id, err := source(m)
			if err == nil {
				return id, nil
			}
			if !errors.Is(err, ErrMissingID) {
				return "", err
			}
			missing = err
		}
		return "", missing
	}
}

func checkSources(sources []IDSource) error {
	if len(sources) == 0 {
		return fmt.Errorf("%w: FirstOf has no source; give one", onefold.ErrInvalid)
	}
	for i, source := range sources {
		if source == nil {
			return fmt.Errorf("%w: FirstOf: source %d is nil; give a function or leave it out", onefold.ErrInvalid, i)
		}
	}
	return nil
}

// CheckSource reports a source that is wrong whatever message it is given, such as HeaderID without a name,
// so that it is found at start and not by a dead letter per message. It asks src once for the ID of an
// empty message. An answer that a message can get, ErrMissingID above all, says nothing against src, nor
// does a panic of a function that expects more than an empty message. Errors: [onefold.ErrInvalid].
func CheckSource(src IDSource) error {
	if src == nil {
		return fmt.Errorf("%w: the ID source is nil; give DefaultID or another", onefold.ErrInvalid)
	}
	var call safecall.Call
	err := call.Do(func() error {
		_, err := src(&onefold.Message{Header: onefold.Header{}})
		return err
	})
	var panicked *onefold.PanicError
	if errors.Is(err, onefold.ErrInvalid) && !errors.Is(err, ErrMissingID) && !errors.As(err, &panicked) {
		return err
	}
	return nil
}

// CheckID trims an ID that came another way, such as from a function of the application, and refuses a
// blank one with ErrMissingID.
func CheckID(id string) (string, error) {
	id = strings.Trim(id, blanks)
	if id == "" {
		return "", ErrMissingID
	}
	return id, nil
}

func headerID(m *onefold.Message, name string) string {
	return strings.Trim(m.Header.Get(name), blanks)
}
