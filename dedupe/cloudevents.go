package dedupe

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/onefold-go/onefold"
)

// The headers and the media type of CloudEvents. Their case does not matter.
const (
	headerEventID      = "ce-id"
	headerEventSource  = "ce-source"
	headerEventVersion = "ce-specversion"
	headerContentType  = "content-type"
	eventMediaType     = "application/cloudevents"
)

// CloudEventID is the ID of a CloudEvent: its source and its id, which together are unique by the CloudEvents
// specification; one id of two sources is two events. The ID is source, length first, then id: "7:/orders42"
// for the event 42 of "/orders". It is an [IDSource].
//
// In binary mode it reads the headers ce-source and ce-id, whose values are percent-encoded; in structured
// mode (content type application/cloudevents+json, or application/cloudevents alone) the members source and id
// of the body. A message with neither a content type nor headers of CloudEvents is structured if its body is a
// CloudEvent, since older senders give no content type. An event has one ID in all modes. Names of headers
// count in any case.
//
// A batch, another event format than JSON, and an event without source or id have no ID: the error wraps
// ErrMissingID and says which it is.
func CloudEventID(m *onefold.Message) (string, error) {
	contentType := anyCase(m.Header, headerContentType)
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media, _, _ = strings.Cut(strings.ToLower(contentType), ";")
	}
	media = strings.Trim(media, blanks)
	switch {
	case media == eventMediaType, media == eventMediaType+"+json":
		return structuredEventID(m.Data)
	case strings.HasPrefix(media, eventMediaType):
		return "", fmt.Errorf("%w: a CloudEvent as %q; only %s+json can be read", ErrMissingID, cut(media), eventMediaType)
	case media == "" && !isBinaryEvent(m.Header):
		return structuredEventID(m.Data)
	}
	return joinEventID("header "+headerEventSource, decodeAttribute(anyCase(m.Header, headerEventSource)),
		"header "+headerEventID, decodeAttribute(anyCase(m.Header, headerEventID)))
}

// isBinaryEvent reports whether a header has attributes of an event.
func isBinaryEvent(h onefold.Header) bool {
	for _, name := range []string{headerEventID, headerEventSource, headerEventVersion} {
		if anyCase(h, name) != "" {
			return true
		}
	}
	return false
}

// structuredEventID reads source and id of an event in the JSON format. Names of members have one case, which
// is why the body is not decoded into a struct.
func structuredEventID(body []byte) (string, error) {
	var event map[string]json.RawMessage
	if err := json.Unmarshal(body, &event); err != nil || event == nil {
		return "", fmt.Errorf("%w: neither the headers %s and %s nor a CloudEvent in the body", ErrMissingID, headerEventSource, headerEventID)
	}
	attribute := func(name string) (value string) {
		if json.Unmarshal(event[name], &value) != nil {
			return "" // absent, or not a string as the specification has it
		}
		return value
	}
	return joinEventID("member source", attribute("source"), "member id", attribute("id"))
}

// joinEventID is the only place where an event's ID is made, whatever mode it came in.
func joinEventID(sourceAt, source, idAt, id string) (string, error) {
	for _, part := range []struct{ at, value string }{{sourceAt, source}, {idAt, id}} {
		if strings.Trim(part.value, blanks) == "" {
			return "", fmt.Errorf("%w: a CloudEvent without an ID: %s is not set", ErrMissingID, part.at)
		}
		if strings.ContainsRune(part.value, utf8.RuneError) { // decoding has replaced what it was: others look alike
			return "", fmt.Errorf("%w: a CloudEvent without a usable ID: %s is not valid UTF-8", ErrMissingID, part.at)
		}
	}
	return strconv.Itoa(len(source)) + ":" + source + id, nil
}

// decodeAttribute undoes the percent-encoding of a header. What is no such encoding is taken as it is.
func decodeAttribute(value string) string {
	if decoded, err := url.PathUnescape(value); err == nil {
		return decoded
	}
	return value
}

// anyCase returns the value of a header whatever the case of its name. Of several spellings the first one in
// the order of bytes counts, so that one message has one ID.
func anyCase(h onefold.Header, name string) string {
	if v := headerID(&onefold.Message{Header: h}, name); v != "" {
		return v
	}
	found, value := "", ""
	for other := range h {
		if v := strings.Trim(h.Get(other), blanks); v != "" && strings.EqualFold(other, name) && (found == "" || other < found) {
			found, value = other, v
		}
	}
	return value
}

// cut returns a text of others as it may stand in a log line.
func cut(s string) string { return s[:min(len(s), 64)] }
