package consumer

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/onefold-go/onefold"
)

// The headers by which a redriven message tells who is to run it and as what. Its other headers and its body
// are those of the message that became the dead letter. Only the consumer that HeaderRedriveFor names reads
// the rest.
const (
	// HeaderRedriveFor is "stream/consumer": whose dead letter it was. Another onefold consumer of that stream
	// acks the copy without running it, because it has, or had, the message itself. To consumers of other
	// streams it is a message like any other.
	HeaderRedriveFor = "Onefold-Redrive-For"

	HeaderRedriveScope    = "Onefold-Redrive-Scope"
	HeaderRedriveID       = "Onefold-Redrive-Id"            // absent: the consumer's ID source finds it
	HeaderRedriveEncoding = "Onefold-Redrive-Encoding"      // "base64" if scope and ID could not stand in a header
	HeaderRedriveGen      = "Onefold-Redrive-Generation"    // absent: 0
	HeaderRedriveOrigin   = "Onefold-Redrive-Origin"        // position and stored time (Unix nanoseconds) of the first generation, "42/1700000000000000000"
	HeaderRedriveOthers   = "Onefold-Redrive-Other-Headers" // base64 of a JSON object: headers that would control the server, or cannot be sent
	HeaderRedriveHistory  = "Onefold-Redrive-History"       // a JSON object for each earlier generation, the oldest first; see PastGeneration

	headerRedrivePrefix = "Onefold-Redrive-"
)

// errRedriveHeader says that a message for this consumer has redrive headers that nobody here has written.
var errRedriveHeader = errors.New("redriven message cannot be identified")

// addressee says whom a message is for.
type addressee uint8

const (
	toAll     addressee = iota // a message like any other
	toUs                       // a dead letter of this consumer that comes again
	toAnother                  // one of another consumer of the same stream
)

// addressee reads HeaderRedriveFor. What names no consumer of this stream is a message like any other: a
// header that somebody has copied must not cost a message.
func (c *Config) addressee(m *onefold.Message) addressee {
	named := m.Header[HeaderRedriveFor]
	if len(named) == 0 {
		return toAll
	}
	stream, name, found := strings.Cut(named[0], "/")
	switch {
	case !found || name == "" || stream != c.Stream:
		return toAll
	case name == c.Name:
		return toUs
	}
	return toAnother
}

// findRedrivenKey gives the message the headers that it had at first, and returns the key that it goes on
// under. Where the dead letter had no ID, the source is asked, and sees the first generation's position: whatever
// it makes the ID of, two redrives of one letter have one.
func (s *session) findRedrivenKey(d *delivery) (onefold.Key, error) {
	o, err := readOrder(d.msg.Header)
	if err != nil {
		return onefold.Key{}, fmt.Errorf("%w: %w", errRedriveHeader, err)
	}
	if o.key.Scope != "" && o.key.Scope != s.cfg.Scope {
		return onefold.Key{}, fmt.Errorf("%w: header %s is %q and this consumer's scope is %q; redrive it after setting Config.Scope, or publish it under a new ID",
			errRedriveHeader, HeaderRedriveScope, o.key.Scope, s.cfg.Scope)
	}
	o.restore(d.msg.Header)
	key := onefold.Key{Scope: s.cfg.Scope, ID: o.key.ID, Gen: o.key.Gen}
	if key.ID == "" {
		first := d.msg
		first.Sequence, first.Time = o.origin.Sequence, time.Unix(0, o.origin.Time).UTC()
		key.ID, err = s.findID(&first)
	}
	return key, err
}

// order is what the headers of a redriven message say.
type order struct {
	key    onefold.Key // without an ID if the source is to find it
	origin sample
	others onefold.Header
}

// readOrder reads the headers of a message that is for this consumer.
func readOrder(h onefold.Header) (o order, err error) {
	if o.key, err = decodeIdentity(h, HeaderRedriveScope, HeaderRedriveID, HeaderRedriveEncoding, HeaderRedriveGen); err != nil {
		return o, err
	}
	if o.key.ID != "" && (o.key.Gen == 0 || o.key.Scope == "") {
		return o, fmt.Errorf("header %s is %q and %s %q; an ID comes with its scope and with a generation of at least 1",
			HeaderRedriveScope, h.Get(HeaderRedriveScope), HeaderRedriveGen, h.Get(HeaderRedriveGen))
	}
	if o.origin, err = decodeOrigin(h.Get(HeaderRedriveOrigin)); err != nil {
		return o, err
	}
	o.others, err = decodeOthers(h, HeaderRedriveOthers)
	return o, err
}

// restore makes h what the message had before it was redriven, beside the redrive headers. What the redrive had
// to tell the server, above all a transport ID for its window, is nobody else's.
func (o *order) restore(h onefold.Header) {
	for name := range h {
		if controlsServer(name) {
			delete(h, name)
		}
	}
	for name, values := range o.others {
		h[name] = values
	}
}

// controlsServer reports whether the server acts on headers of this name.
func controlsServer(name string) bool {
	const prefix = "nats-"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// encodeIdentity returns scope and ID as they may stand in headers, and how they are encoded.
func encodeIdentity(k onefold.Key) (scope, id, encoding string) {
	if plain(k.Scope) && plain(k.ID) {
		return k.Scope, k.ID, ""
	}
	return base64.StdEncoding.EncodeToString([]byte(k.Scope)), base64.StdEncoding.EncodeToString([]byte(k.ID)), "base64"
}

// decodeIdentity reads a key from the headers of these names. What is absent is zero.
func decodeIdentity(h onefold.Header, scope, id, encoding, gen string) (k onefold.Key, err error) {
	k.Scope, k.ID = h.Get(scope), h.Get(id)
	switch e := h.Get(encoding); e {
	case "":
	case "base64":
		if k.Scope, err = decodeText(scope, k.Scope); err == nil {
			k.ID, err = decodeText(id, k.ID)
		}
	default:
		err = fmt.Errorf("header %s is %q; known: base64", encoding, e)
	}
	if err != nil {
		return onefold.Key{}, err
	}
	if text := h.Get(gen); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return onefold.Key{}, fmt.Errorf("header %s is %q; it must be a number below 4294967296", gen, text)
		}
		k.Gen = uint32(n)
	}
	return k, nil
}

func decodeText(name, value string) (string, error) {
	b, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return "", fmt.Errorf("header %s: %w", name, err)
	}
	return string(b), nil
}

// encodeOrigin and decodeOrigin are the form of a position in a header.
func encodeOrigin(s sample) string {
	return strconv.FormatUint(s.Sequence, 10) + "/" + strconv.FormatInt(s.Time, 10)
}

func decodeOrigin(text string) (s sample, err error) {
	sequence, nanos, _ := strings.Cut(text, "/")
	if s.Sequence, err = strconv.ParseUint(sequence, 10, 64); err == nil {
		s.Time, err = strconv.ParseInt(nanos, 10, 64)
	}
	if err != nil || s.Sequence == 0 {
		return sample{}, fmt.Errorf("header %s is %q; it must be a position and a time in nanoseconds, joined by a slash", HeaderRedriveOrigin, text)
	}
	return s, nil
}

// encodeOthers and decodeOthers are the form of headers that do not travel as such.
func encodeOthers(others onefold.Header) string {
	encoded, _ := json.Marshal(others) // strings always encode
	return base64.StdEncoding.EncodeToString(encoded)
}

func decodeOthers(h onefold.Header, name string) (others onefold.Header, err error) {
	text := h.Get(name)
	if text == "" {
		return nil, nil
	}
	encoded, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(encoded, &others)
	}
	if err != nil {
		return nil, fmt.Errorf("header %s: %w", name, err)
	}
	return others, nil
}
