package onefold

import (
	"fmt"
	"strings"
)

// checkStateName refuses names of state that no store could keep.
func checkStateName(table, key string) error {
	switch {
	case table == "":
		return fmt.Errorf("%w: state table is empty; name one", ErrInvalid)
	case strings.HasPrefix(table, ReservedTablePrefix):
		return fmt.Errorf("%w: state table %q: names starting with %q belong to the framework", ErrInvalid, table, ReservedTablePrefix)
	case key == "":
		return fmt.Errorf("%w: state key in table %q is empty", ErrInvalid, table)
	case len(table)+len(key) > MaxStateKeyBytes:
		return fmt.Errorf("%w: state key in table %q: table and key take %d bytes, the limit is %d; hash long keys",
			ErrInvalid, showID(table), len(table)+len(key), MaxStateKeyBytes)
	}
	return nil
}

// checkEffect refuses an effect that could never leave.
func checkEffect(e *Effect, limits Limits) error {
	if e.ID != "" {
		return fmt.Errorf("%w: ID is %q; it is derived from the key, leave it empty", ErrInvalid, showID(e.ID))
	}
	if e.Cancel {
		if e.Timer == "" {
			return fmt.Errorf("%w: Cancel is set and Timer is empty; name the timer to cancel", ErrInvalid)
		}
		return nil
	}
	if e.Kind != KindMessage && e.Kind != KindCall {
		return fmt.Errorf("%w: Kind is %q; known kinds: %q, %q", ErrInvalid, showID(e.Kind), KindMessage, KindCall)
	}
	if e.Conn != "" {
		return fmt.Errorf("%w: Conn is %q; relays have their own connection only, leave it empty", ErrInvalid, showID(e.Conn))
	}
	if e.Kind == KindCall {
		return checkCall(e)
	}
	if e.Once {
		return fmt.Errorf("%w: Once is set on a message; messages are deduped by their ID, leave it false", ErrInvalid)
	}
	if err := CheckSubject(e.Target); err != nil {
		return fmt.Errorf("field Target: %w", err)
	}
	header, err := checkHeader(e.Header)
	if err != nil {
		return err
	}
	if n := header + len(e.Payload); n > limits.MaxPayload {
		return fmt.Errorf("%w: Payload: %d bytes with headers, the server's limit is %d; send large bodies by reference",
			ErrTooLarge, n, limits.MaxPayload)
	}
	return nil
}

// CheckSubject reports why a message could not be published to subject, or nil. The error wraps
// [ErrInvalid]. Rules: the NATS subject syntax, without wildcards, at most MaxSubjectBytes.
func CheckSubject(subject string) error {
	switch {
	case subject == "":
		return fmt.Errorf("%w: subject is empty", ErrInvalid)
	case len(subject) > MaxSubjectBytes:
		return fmt.Errorf("%w: subject has %d bytes, the limit is %d", ErrInvalid, len(subject), MaxSubjectBytes)
	case strings.ContainsFunc(subject, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fmt.Errorf("%w: subject %q contains a blank or a control character; join tokens with dots", ErrInvalid, subject)
	}
	for token := range strings.SplitSeq(subject, ".") {
		switch token {
		case "":
			return fmt.Errorf("%w: subject %q has an empty token; remove the extra dot", ErrInvalid, subject)
		case "*", ">":
			return fmt.Errorf("%w: subject %q contains the wildcard %q; publish to one subject", ErrInvalid, subject, token)
		}
	}
	return nil
}

// ownHeaderBytes is what the relay adds to each message: the transport ID, our ID, the trace.
const ownHeaderBytes = 256

// checkHeader returns the size of the header block that h makes with the relay's own headers.
func checkHeader(h Header) (int, error) {
	n := ownHeaderBytes
	for name, values := range h {
		switch {
		case !IsHeaderName(name):
			return 0, fmt.Errorf("%w: header name %q: only letters, digits and !#$%%&'*+-.^_`|~ are allowed", ErrInvalid, name)
		case strings.HasPrefix(strings.ToLower(name), "nats-"):
			return 0, fmt.Errorf("%w: header %q: names starting with Nats- control the server, use another", ErrInvalid, name)
		case strings.HasPrefix(strings.ToLower(name), "onefold-"):
			return 0, fmt.Errorf("%w: header %q: names starting with Onefold- belong to the framework, use another", ErrInvalid, name)
		}
		for _, v := range values {
			if !IsHeaderValue(v) {
				return 0, fmt.Errorf("%w: header %q: the value has a line break, a NUL or a blank at an end; encode it", ErrInvalid, name)
			}
			n += len(name) + len(v) + len(": \r\n")
		}
	}
	if n > MaxHeaderBytes {
		return 0, fmt.Errorf("%w: Header: %d bytes, the server's limit is %d; move data into the payload", ErrTooLarge, n, MaxHeaderBytes)
	}
	return n, nil
}

// IsHeaderName reports whether name can stand in a header: it is a token as RFC 9110 section 5.6.2 has it.
// Others cannot be published, although a message may arrive with them.
func IsHeaderName(name string) bool {
	for i := range len(name) {
		c := name[i]
		alphanumeric := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alphanumeric && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}

// IsHeaderValue reports whether a header value arrives as it was sent: it holds no line break and no NUL,
// and no blank at either end, which would be trimmed on the way.
func IsHeaderValue(value string) bool {
	return !strings.ContainsAny(value, "\r\n\x00") && strings.Trim(value, " \t") == value
}

// effectBytes is what e adds to an entry.
func effectBytes(e *Effect) int {
	n := len(e.Target) + len(e.Payload) + len(e.OrderKey) + len(e.Timer) + len(e.Conn) + 64
	for name, values := range e.Header {
		for _, v := range values {
			n += len(name) + len(v) + 4
		}
	}
	return n
}

// writeBytes is what w adds to an entry.
func writeBytes(w *Write) int { return len(w.Table) + len(w.Key) + len(w.Value) + 16 }
