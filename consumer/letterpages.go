package consumer

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// letterPage is how many dead letters are asked for at once: even at a mebibyte each they fit into what the
// client buffers.
const letterPage = 32

// pageWait is how long a page may take. One that is not full by then, because messages have been removed, ends
// with what has come.
const pageWait = 5 * time.Second

// emptyPages is how often in a row the server may say that there are messages and send none.
const emptyPages = 3

// last returns the last position of the stream, which may be read.
func (d *DeadLetters) last(ctx context.Context) (uint64, error) {
	stream, err := d.js.Stream(ctx, d.name)
	if err != nil {
		return 0, fmt.Errorf("look up dead-letter stream %s: %w", d.name, err)
	}
	if stream.CachedInfo().Config.Retention == jetstream.WorkQueuePolicy {
		return 0, fmt.Errorf("dead-letter stream %s: %w: it is a work queue, whose messages cannot be read and left there; consume it and use ParseLetter, or use limits retention",
			d.name, onefold.ErrInvalid)
	}
	return stream.CachedInfo().State.LastSeq, nil
}

// message reads one message.
func (d *DeadLetters) message(ctx context.Context, sequence uint64) (*onefold.Message, error) {
	stream, err := d.js.Stream(ctx, d.name)
	if err != nil {
		return nil, fmt.Errorf("look up dead-letter stream %s: %w", d.name, err)
	}
	raw, err := stream.GetMsg(ctx, sequence)
	if err != nil {
		return nil, fmt.Errorf("read message %d of dead-letter stream %s: %w", sequence, d.name, err)
	}
	return &onefold.Message{Subject: raw.Subject, Header: onefold.Header(raw.Header), Data: raw.Data, Stream: d.name, Sequence: raw.Sequence, Time: raw.Time}, nil
}

// messages reads the stream up to a position. It reads in pages, each through a consumer of its own that starts
// behind the last: whatever is lost on the way is asked for again, and the leader answers, which cannot miss what
// the stream has.
func (d *DeadLetters) messages(ctx context.Context, upTo uint64) iter.Seq2[*onefold.Message, error] {
	return func(yield func(*onefold.Message, error) bool) {
		empty := 0
		for next := uint64(1); next <= upTo; {
			page, more, err := d.page(ctx, next)
			if empty++; len(page) > 0 {
				empty = 0
			}
			for _, m := range page {
				if m.Sequence > upTo || !yield(m, nil) {
					return
				}
				next = m.Sequence + 1
			}
			switch {
			case err == nil && empty >= emptyPages:
				err = context.DeadlineExceeded
				fallthrough
			case err != nil:
				yield(nil, fmt.Errorf("read dead-letter stream %s from position %d: %w", d.name, next, err))
				return
			case !more:
				return
			}
		}
	}
}

// page reads some messages from a position on, and reports whether there may be more behind them.
func (d *DeadLetters) page(ctx context.Context, from uint64) (page []*onefold.Message, more bool, err error) {
	c, err := d.js.CreateConsumer(ctx, d.name, jetstream.ConsumerConfig{
		Description: "reads dead letters for a moment", DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return nil, false, err
	}
	defer func() {
		// It would go by itself after a while: nothing depends on the answer.
		_ = d.js.DeleteConsumer(ctx, d.name, c.CachedInfo().Name)
	}()
	pending := c.CachedInfo().NumPending
	if pending == 0 {
		return nil, false, nil
	}
	waiting, cancel := context.WithTimeout(ctx, pageWait)
	defer cancel()
	batch, err := c.Fetch(int(min(pending, letterPage)), jetstream.FetchContext(waiting))
	if err != nil {
		return nil, false, err
	}
	whole := true
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return page, true, err
		}
		// If one was lost on the way, the next page begins with it.
		if whole = whole && meta.Sequence.Consumer == uint64(len(page))+1; whole {
			page = append(page, &onefold.Message{Subject: m.Subject(), Header: onefold.Header(m.Headers()), Data: m.Data(),
				Stream: d.name, Sequence: meta.Sequence.Stream, Time: meta.Timestamp})
		}
	}
	if err := batch.Error(); err != nil && waiting.Err() == nil {
		return page, true, err
	}
	return page, !whole || pending > uint64(len(page)), ctx.Err()
}
