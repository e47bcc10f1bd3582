package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// The server may answer "duplicate" to a message that it does not have: it has dropped the message and kept its ID,
// or somebody else has used the ID. A row that may have been published before is nevertheless believed, because
// its message may have been consumed since. One that cannot have been is looked for.
var (
	errNotStored  = errors.New("answered as a duplicate although it was never published before, and the stream does not have it")
	errUnverified = errors.New("answered as a duplicate although it was never published before, and the stream could not be read")
)

// maxPublishedBefore bounds how many IDs of messages without an answer are remembered.
const maxPublishedBefore = 1 << 16

// firsts tells which rows cannot have been published before. It lives as long as the relay; one goroutine uses it
// at a time.
type firsts struct {
	clean  bool // the store has counted every attempt
	before map[string]struct{}
	full   bool // some are not remembered: none is believed to be first any more
}

// learn remembers that a message may have been stored although no answer has said so.
func (f *firsts) learn(id string, v verdict, err error) {
	switch {
	case v != waiting:
		if len(f.before) > 0 {
			delete(f.before, id)
		}
	case errors.Is(err, errUnverified):
	case len(f.before) >= maxPublishedBefore:
		f.full = true
	default:
		if f.before == nil {
			f.before = map[string]struct{}{}
		}
		f.before[id] = struct{}{}
	}
}

// doubts reports whether a is a duplicate that cannot be one.
func (f *firsts) doubts(a answer) bool {
	if a.ack == nil || !a.ack.Duplicate || a.verified || a.row.Attempt != 1 || !f.clean || f.full {
		return false
	}
	if a.ack.Domain != "" {
		return false // its stream is elsewhere: one of that name here is another
	}
	_, before := f.before[a.row.Effect.ID]
	return !before
}

// verifier reads messages that the server says it has. It is a goroutine of its own, so that a slow answer holds up
// no other row.
type verifier struct {
	asked   chan answer // has room for every row that can be out
	timeout time.Duration
	resolve func(answer)
	// transportID reads the ID of the message that ack is about, and the duplicate window of its stream. ok is false
	// if the stream does not have the message and should. A stream that removes what was consumed is believed: the
	// answer is published then, the ID that was sent.
	transportID func(ctx context.Context, ack *jetstream.PubAck, published string) (id string, window time.Duration, ok bool, err error)
}

// run verifies what is asked until ctx ends.
func (v *verifier) run(ctx context.Context) {
	for {
		select {
		case a := <-v.asked:
			v.verify(ctx, &a)
			v.resolve(a)
		case <-ctx.Done():
			return
		}
	}
}

func (v *verifier) verify(ctx context.Context, a *answer) {
	ctx, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()
	a.verified = true
	id, window, ok, err := v.transportID(ctx, a.ack, a.row.Effect.ID)
	switch {
	case err != nil:
		a.err = fmt.Errorf("%w: read message %d of stream %q: %w", errUnverified, a.ack.Sequence, a.ack.Stream, err)
	case !ok:
		a.err = fmt.Errorf("%w at sequence %d of %q: resume the row when the stream's duplicate window of %v has passed",
			errNotStored, a.ack.Sequence, a.ack.Stream, window)
	case id != a.row.Effect.ID:
		a.err = fmt.Errorf("%w: sequence %d of %q is the message %q: resume the row when the stream's duplicate window of %v has passed",
			errNotStored, a.ack.Sequence, a.ack.Stream, onefold.TruncateReason(id), window)
	}
}

// readTransportID asks JetStream.
func readTransportID(ctx context.Context, js jetstream.JetStream, ack *jetstream.PubAck, published string) (id string, window time.Duration, ok bool, err error) {
	stream, err := js.Stream(ctx, ack.Stream)
	if err != nil {
		return "", 0, false, err
	}
	window = stream.CachedInfo().Config.Duplicates
	m, err := stream.GetMsg(ctx, ack.Sequence)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		if stream.CachedInfo().Config.Retention != jetstream.LimitsPolicy {
			return published, window, true, nil // what was consumed is gone: that is no sign of a loss
		}
		return "", window, false, nil
	case err != nil:
		return "", window, false, err
	}
	return m.Header.Get(HeaderTransportID), window, true, nil
}
