package consumer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/onefold-go/onefold"
)

// ErrNotLetter reports what is not a dead letter of a onefold consumer, or not a whole one. The error that
// wraps it names what is missing or wrong.
var ErrNotLetter = errors.New("not a dead letter")

// Letter is a dead letter: a message that a consumer has given up, and why. [DeadLetters] reads them from
// their stream, [ParseLetter] makes one of messages that arrived in another way.
type Letter struct {
	Stream   string    // that holds the letter
	Sequence uint64    // of the letter there; of its first part if it has several
	Time     time.Time // when that stream stored it

	Reason        string        // of the last attempt; one line, cut at onefold.MaxReasonBytes
	EarlierReason string        // of the attempt before; empty if there is none
	Class         onefold.Class // sorts the reason
	Attempts      int           // runs of the handler; 0 if it has not run
	Retention     time.Duration // how long the consumer remembered this end of the message; 0: the letter does not say

	// Key is what the message was deduped by. It is zero if the message had no ID. An ID of more than 16 KiB is not
	// kept: then Scope and Gen are set, and ID is empty.
	Key onefold.Key

	// Message is what the consumer had: body and headers, and where it was. Of a message that was redriven before it
	// is the copy, without the headers of the redrive.
	Message onefold.Message

	// HeadersLost says that the headers of Message did not fit into the letter.
	HeadersLost bool

	// History tells of earlier generations, the oldest first; empty if the message was not redriven before.
	History []PastGeneration

	origin sample   // position of the first generation
	parts  []uint64 // positions of all parts
}

// PastGeneration is one earlier generation of a message: where it was, and how it ended as a dead letter.
type PastGeneration struct {
	Gen      uint32        `json:"gen"`
	Sequence uint64        `json:"sequence"` // of its message
	Time     time.Time     `json:"time"`     // when its message was stored
	Class    onefold.Class `json:"class"`
	Reason   string        `json:"reason"`
	Attempts int           `json:"attempts"`
}

// ParseLetter reads a dead letter, given as the messages of the stream that holds it: one, or all parts of a
// letter that is larger than a message may be, in any order. The letter shares memory with them. Errors:
// [ErrNotLetter].
func ParseLetter(parts ...*onefold.Message) (*Letter, error) {
	l, err := parseLetter(parts)
	if err != nil {
		where := "no message"
		if len(parts) > 0 {
			where = fmt.Sprintf("message %d of stream %s", parts[0].Sequence, parts[0].Stream)
		}
		return nil, fmt.Errorf("%w: %s: %w", ErrNotLetter, where, err)
	}
	return l, nil
}

func parseLetter(messages []*onefold.Message) (*Letter, error) {
	parts, err := inOrder(messages)
	if err != nil {
		return nil, err
	}
	first := parts[0]
	l := &Letter{Stream: first.Stream, Sequence: first.Sequence, Time: first.Time}
	if err := l.readFacts(first.Header); err != nil {
		return nil, err
	}
	if first.Header.Get(HeaderDeadPart) == "" {
		l.Message.Data = first.Data
		err = l.readOriginals(first.Header)
	} else {
		err = l.readParts(parts)
	}
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		l.parts = append(l.parts, p.Sequence)
	}
	l.readHistory()
	return l, nil
}

// readFacts fills in what the consumer said of the message.
func (l *Letter) readFacts(h onefold.Header) (err error) {
	for _, name := range []string{
		HeaderDeadStream, HeaderDeadConsumer, HeaderDeadSubject, HeaderDeadSequence, HeaderDeadTime, HeaderDeadClass, HeaderDeadAttempts,
	} {
		if h.Get(name) == "" {
			return fmt.Errorf("header %s is missing", name)
		}
	}
	l.Reason, l.EarlierReason, l.Class = h.Get(HeaderDeadReason), h.Get(HeaderDeadEarlier), onefold.Class(h.Get(HeaderDeadClass))
	m := &l.Message
	m.Stream, m.Consumer, m.Subject = h.Get(HeaderDeadStream), h.Get(HeaderDeadConsumer), h.Get(HeaderDeadSubject)
	if l.Attempts, err = strconv.Atoi(h.Get(HeaderDeadAttempts)); err != nil || l.Attempts < 0 {
		return fmt.Errorf("header %s is %q; it must be a number", HeaderDeadAttempts, h.Get(HeaderDeadAttempts))
	}
	if m.Sequence, err = strconv.ParseUint(h.Get(HeaderDeadSequence), 10, 64); err != nil || m.Sequence == 0 {
		return fmt.Errorf("header %s is %q; it must be a stream position", HeaderDeadSequence, h.Get(HeaderDeadSequence))
	}
	if m.Time, err = time.Parse(time.RFC3339Nano, h.Get(HeaderDeadTime)); err != nil {
		return fmt.Errorf("header %s: %w", HeaderDeadTime, err)
	}
	if text := h.Get(HeaderDeadRetain); text != "" {
		if l.Retention, err = time.ParseDuration(text); err != nil || l.Retention <= 0 {
			return fmt.Errorf("header %s is %q; it must be a positive duration", HeaderDeadRetain, text)
		}
	}
	l.Key, err = decodeIdentity(h, HeaderDeadScope, HeaderDeadID, HeaderDeadEncoding, HeaderDeadGen)
	return err
}

// readOriginals takes the message's own headers out of those of a letter.
func (l *Letter) readOriginals(h onefold.Header) (err error) {
	if l.Message.Header, err = decodeOthers(h, HeaderDeadOthers); err != nil {
		return err
	}
	if l.Message.Header == nil {
		l.Message.Header = onefold.Header{}
	}
	for name, values := range h {
		if own, found := strings.CutPrefix(name, HeaderDeadOriginal); found {
			l.Message.Header[own] = values
		}
	}
	return nil
}

// readParts puts body and headers together again.
func (l *Letter) readParts(parts []*onefold.Message) error {
	for _, p := range parts[1:] {
		l.Message.Data = append(l.Message.Data, p.Data...)
	}
	if l.HeadersLost = len(parts[0].Data) == 0; l.HeadersLost {
		return nil
	}
	if err := json.Unmarshal(parts[0].Data, &l.Message.Header); err != nil {
		return fmt.Errorf("headers in the body of its first part: %w", err)
	}
	return nil
}

// readHistory takes the headers of a redrive out of the message and into the letter. Those that were not for
// this consumer, or that nobody here has written, tell nothing.
func (l *Letter) readHistory() {
	m := &l.Message
	l.origin = sample{Sequence: m.Sequence, Time: m.Time.UnixNano()}
	target := Config{Stream: m.Stream, Name: m.Consumer}
	if target.addressee(m) == toUs {
		if first, err := decodeOrigin(m.Header.Get(HeaderRedriveOrigin)); err == nil {
			l.origin = first
		}
		for _, text := range m.Header[HeaderRedriveHistory] {
			var past PastGeneration
			if json.Unmarshal([]byte(text), &past) == nil {
				l.History = append(l.History, past)
			}
		}
	}
	for name := range m.Header {
		if strings.HasPrefix(name, headerRedrivePrefix) {
			delete(m.Header, name)
		}
	}
}

// partOf reads the number of a message among the parts of its letter, and how many there are. A letter in one
// piece is part 1 of 1.
func partOf(h onefold.Header) (number, all int, err error) {
	text := h.Get(HeaderDeadPart)
	if text == "" {
		return 1, 1, nil
	}
	n, of, _ := strings.Cut(text, "/")
	if number, err = strconv.Atoi(n); err == nil {
		all, err = strconv.Atoi(of)
	}
	if err != nil || number < 1 || number > all {
		return 0, 0, fmt.Errorf("header %s is %q; it must be a number and how many there are, such as 1/2", HeaderDeadPart, text)
	}
	return number, all, nil
}

// letterID names the letter that a message is a part of. It is empty if nothing does.
func letterID(h onefold.Header, number int) string {
	if number == 1 {
		return h.Get(onefold.HeaderID)
	}
	return h.Get(HeaderDeadOf)
}

// inOrder returns the parts of one letter from first to last. A part may be there several times.
func inOrder(messages []*onefold.Message) ([]*onefold.Message, error) {
	if len(messages) == 0 {
		return nil, errors.New("there are no parts")
	}
	byNumber := map[int]*onefold.Message{}
	var want int
	var id string
	for i, m := range messages {
		number, all, err := partOf(m.Header)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			want, id = all, letterID(m.Header, number)
		}
		if of := letterID(m.Header, number); all != want || of != id || all > 1 && id == "" {
			return nil, fmt.Errorf("part %d of %d is of letter %q, and another part of %d of %q", number, all, of, want, id)
		}
		byNumber[number] = m
	}
	if len(byNumber) == want {
		numbers := make([]*onefold.Message, 0, want)
		for number := range want {
			numbers = append(numbers, byNumber[number+1])
		}
		return numbers, nil
	}
	return nil, missingParts(byNumber, want)
}

// missingParts names at most a few of the parts that are not there.
func missingParts(byNumber map[int]*onefold.Message, want int) error {
	var missing []string
	for number := 1; number <= want && len(missing) < 4; number++ {
		if byNumber[number] == nil {
			missing = append(missing, strconv.Itoa(number))
		}
	}
	if more := want - len(byNumber) - len(missing); more > 0 {
		missing = append(missing, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("of %d parts %s are missing; they may have been removed, or are not sent yet", want, strings.Join(missing, ", "))
}
