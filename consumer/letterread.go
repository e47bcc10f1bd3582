package consumer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// DeadLettersConfig says where dead letters are. The zero value is a good choice.
type DeadLettersConfig struct {
	Stream string        // that holds them; default DefaultDeadLetterStream
	Clock  onefold.Clock // zero: the machine's
}

// DeadLetters reads the dead letters of a stream, of all consumers that send them there, and redrives them.
// It is safe for concurrent use and holds nothing that has to be closed. It needs no store, so that a tool on
// another machine may use it.
type DeadLetters struct {
	js    jetstream.JetStream
	name  string
	clock onefold.Clock
}

// NewDeadLetters returns a reader. It does no I/O. Errors: [onefold.ErrInvalid].
func NewDeadLetters(js jetstream.JetStream, cfg DeadLettersConfig) (*DeadLetters, error) {
	if js == nil {
		return nil, fmt.Errorf("%w: js is nil; pass the JetStream context of a connection", onefold.ErrInvalid)
	}
	setDefault(&cfg.Stream, DefaultDeadLetterStream)
	var p problems
	p.name("Stream", cfg.Stream)
	if len(p) > 0 {
		return nil, fmt.Errorf("dead letters: %w: %w", onefold.ErrInvalid, errors.Join(p...))
	}
	return &DeadLetters{js: js, name: cfg.Stream, clock: cfg.Clock.OrSystem()}, nil
}

// LetterFilter selects dead letters: those that fit each field which is set. The zero value selects all.
type LetterFilter struct {
	Stream   string        // the stream that the message was consumed from
	Consumer string        // who gave it up
	Class    onefold.Class // why, by class
	Reason   string        // part of the reason, as it is written
	ID       string        // the message's ID
	Since    time.Time     // given up at that time or later, by the clock of the server
	Before   time.Time     // given up before that time

	// UpTo is the last position that is looked at; 0: the last one that the stream has when Select is called.
	UpTo uint64
}

// selects reports whether l fits.
func (f *LetterFilter) selects(l *Letter) bool {
	switch {
	case f.Stream != "" && f.Stream != l.Message.Stream,
		f.Consumer != "" && f.Consumer != l.Message.Consumer,
		f.Class != "" && f.Class != l.Class,
		f.ID != "" && f.ID != l.Key.ID,
		!strings.Contains(l.Reason, f.Reason),
		!f.Since.IsZero() && l.Time.Before(f.Since),
		!f.Before.IsZero() && !l.Time.Before(f.Before):
		return false
	}
	return true
}

// Selection is a frozen set of dead letters: what its filter selects of those that the stream had at one
// moment. Letters that come later are never in it, however often and however long it is read, so that what a
// dry run has shown is what is redriven. Letters that are removed meanwhile are not in it any more.
type Selection struct {
	letters *DeadLetters
	filter  LetterFilter
}

// Select freezes a filter. Errors: jetstream.ErrStreamNotFound; [onefold.ErrInvalid] if the stream is a work
// queue, whose messages nobody can read and leave there.
func (d *DeadLetters) Select(ctx context.Context, f LetterFilter) (*Selection, error) {
	last, err := d.last(ctx)
	if err != nil {
		return nil, err
	}
	if f.UpTo == 0 || f.UpTo > last {
		f.UpTo = last
	}
	return &Selection{letters: d, filter: f}, nil
}

// UpTo is the last position of the stream that belongs to the selection; 0 if the stream was empty. Give it as
// LetterFilter.UpTo to select the same set in another process.
func (s *Selection) UpTo() uint64 { return s.filter.UpTo }

// Letters reads the selected letters in the order of the stream; one of several parts comes where its last part
// is. What cannot be read is an error instead of a letter, and reading goes on: a message that is no dead letter, or
// not a whole one ([ErrNotLetter]), whatever the filter says. If ctx ends or the server cannot be reached, that
// error is the last. A letter that was stored twice, because its answer got lost, comes twice.
func (s *Selection) Letters(ctx context.Context) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) {
		a := assembly{}
		for m, err := range s.letters.messages(ctx, s.filter.UpTo) {
			if err != nil {
				yield(nil, err)
				return
			}
			parts := a.add(m)
			if parts == nil {
				continue
			}
			l, err := ParseLetter(parts...)
			if err == nil && !s.filter.selects(l) {
				continue
			}
			if !yield(l, err) {
				return
			}
		}
		for _, parts := range a.rest() {
			if _, err := ParseLetter(parts...); !yield(nil, err) {
				return
			}
		}
	}
}

// Get reads the letter at a position: that of any of its parts. For a letter of several parts the stream is
// searched from its start. Errors: jetstream.ErrMsgNotFound, jetstream.ErrStreamNotFound, [ErrNotLetter].
func (d *DeadLetters) Get(ctx context.Context, sequence uint64) (*Letter, error) {
	m, err := d.message(ctx, sequence)
	if err != nil {
		return nil, err
	}
	number, all, err := partOf(m.Header)
	if err != nil || all == 1 {
		return ParseLetter(m)
	}
	last, err := d.last(ctx)
	if err != nil {
		return nil, err
	}
	id, parts := letterID(m.Header, number), []*onefold.Message{}
	for other, err := range d.messages(ctx, last) {
		if err != nil {
			return nil, err
		}
		if n, all, err := partOf(other.Header); err == nil && all > 1 && letterID(other.Header, n) == id {
			parts = append(parts, other)
		}
	}
	return ParseLetter(parts...)
}

// assembly collects the parts of letters that are too large for one message. They may come in any order, among
// others, and more than once.
type assembly struct {
	open map[string][]*onefold.Message
	done map[string]bool
	ids  []string // in the order in which they came
}

// add returns the messages that make a letter now, or what can never be a part of one; nil if parts are missing.
func (a *assembly) add(m *onefold.Message) []*onefold.Message {
	number, all, err := partOf(m.Header)
	id := letterID(m.Header, number)
	if err != nil || all == 1 || id == "" {
		return []*onefold.Message{m}
	}
	if a.done[id] {
		return nil
	}
	if a.open == nil {
		a.open, a.done = map[string][]*onefold.Message{}, map[string]bool{}
	}
	if len(a.open[id]) == 0 {
		a.ids = append(a.ids, id)
	}
	parts := append(a.open[id], m)
	a.open[id] = parts
	if len(parts) < all {
		return nil
	}
	if _, err := inOrder(parts); err != nil {
		return nil // some of them are copies
	}
	delete(a.open, id)
	a.done[id] = true
	return parts
}

// rest returns what has stayed incomplete.
func (a *assembly) rest() (all [][]*onefold.Message) {
	for _, id := range a.ids {
		if parts := a.open[id]; len(parts) > 0 {
			all = append(all, parts)
		}
	}
	return all
}
