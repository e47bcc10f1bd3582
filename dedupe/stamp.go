package dedupe

import (
	"fmt"
	"strings"

	"github.com/onefold-go/onefold"
)

// MaxStableIDBytes is the longest ID that [StableID] makes.
const MaxStableIDBytes = 1 << 10

// StableID makes an ID of what a message is about: StableID("order", "7", "created") is "order/7/created". Equal parts
// give equal IDs in every process and in every version of this package, and different parts different ones: bytes
// other than ASCII letters, digits and -_.~:@+ are escaped as %XX within a part, the slash among them. It may be the ID
// of an outgoing message, of an [IDSource] of yours, or of the [onefold.Key] of outbox.Enqueue.
//
// Name the kind of thing, which one, and what has happened to it. What changes when a sender tries again (a time, an
// attempt, a fresh UUID) must not be in it, and what tells two messages apart must: two payments of one order need two IDs.
//
// Errors: [ErrMissingID] (no part, or a blank one: an order that has no ID yet is not the same as another such);
// [onefold.ErrInvalid] (longer than MaxStableIDBytes: give a digest of the long part).
func StableID(parts ...string) (string, error) {
	if len(parts) == 0 {
		return "", fmt.Errorf("%w: StableID has no part; name what the message is about", ErrMissingID)
	}
	var id strings.Builder
	for i, part := range parts {
		if strings.Trim(part, blanks) == "" {
			return "", fmt.Errorf("%w: part %d of the ID, counted from 0, is %q; give the message an ID when all parts are known",
				ErrMissingID, i, cut(part))
		}
		if i > 0 {
			id.WriteByte('/')
		}
		escape(&id, part)
		if id.Len() > MaxStableIDBytes {
			return "", fmt.Errorf("%w: the ID is longer than %d bytes with part %d, %q...; give a digest of it instead",
				onefold.ErrInvalid, MaxStableIDBytes, i, cut(part))
		}
	}
	return id.String(), nil
}

// escape writes a part. It never changes: IDs are compared with those of other programs and other years.
func escape(id *strings.Builder, part string) {
	for i := range len(part) {
		c := part[i]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("-_.~:@+", c) >= 0 {
			id.WriteByte(c)
			continue
		}
		fmt.Fprintf(id, "%%%02X", c)
	}
}

// Stamp puts the [StableID] of parts into the header of a message that a program publishes without a store of its own,
// and returns it. A nats.Header is converted and not copied:
//
//	m := nats.NewMsg("orders.created")
//	m.Data = body
//	if _, err := dedupe.Stamp(onefold.Header(m.Header), "order", order.ID, "created"); err != nil {
//		return err
//	}
//	_, err := js.PublishMsg(ctx, m) // on an error or no answer: again, with the same parts
//
// It sets Onefold-Id, by which consumers of onefold know a message for as long as they remember it, and Nats-Msg-Id, by
// which the stream drops copies within its duplicate window, whatever their subjects. Publishing again until an answer
// comes is therefore safe. What was in the two headers is replaced.
//
// A program that has a store, and must not forget to publish, uses outbox.Enqueue. Messages of handlers have IDs of
// their own and may not set these headers.
//
// Errors: those of StableID; [onefold.ErrInvalid] (h is nil). h is unchanged then.
func Stamp(h onefold.Header, parts ...string) (id string, err error) {
	if h == nil {
		return "", fmt.Errorf("%w: the header is nil; make one first, as nats.NewMsg does", onefold.ErrInvalid)
	}
	if id, err = StableID(parts...); err != nil {
		return "", err
	}
	h[onefold.HeaderID], h[HeaderTransportID] = []string{id}, []string{id}
	return id, nil
}
