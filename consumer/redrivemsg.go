package consumer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

// ErrLetterTooOld reports a dead letter that is older than the retention it was stored with: whether it was
// redriven already may be forgotten, and then another redrive runs the message again.
var ErrLetterTooOld = errors.New("dead letter is older than its retention")

// Next returns the key under which the message of l goes on when it is redriven: the same scope and ID, one
// generation more. Without an ID in the letter, the consumer's ID source finds it, and ID is empty. A message that
// had no ID at all was never run under one, so that it goes on as generation 0.
func (l *Letter) Next() (onefold.Key, error) {
	k := l.Key
	if k.Scope == "" && k.ID == "" {
		return onefold.Key{}, nil
	}
	if k.Gen == math.MaxUint32 {
		return onefold.Key{}, fmt.Errorf("%w: %v has used up its generations; publish the message under a new ID", onefold.ErrInvalid, k)
	}
	k.Gen++
	return k, nil
}

// checkAge refuses a letter whose earlier redrives may be forgotten. One that was redriven is dead or done at
// the next generation, later than the letter was stored and for as long as the retention from then on.
func checkAge(l *Letter, now time.Time) error {
	retention := l.Retention
	setDefault(&retention, DefaultRetention)
	if age := now.Sub(l.Time); age >= retention {
		return fmt.Errorf("%w: it is %v old and its retention %v; if it was redriven before, the message may run again: make sure, and set RedriveOptions.AllowOld",
			ErrLetterTooOld, age.Round(time.Second), retention)
	}
	return nil
}

// redriveMessage makes the message that brings the message of l to its consumer again. It is a pure function
// of the letter, so that a second redrive is a copy of the first.
func redriveMessage(l *Letter, maxPayload int64) (*nats.Msg, error) {
	next, err := l.Next()
	if err != nil {
		return nil, err
	}
	if err := onefold.CheckSubject(l.Message.Subject); err != nil {
		return nil, err
	}
	if l.HeadersLost {
		return nil, fmt.Errorf("%w: the message's headers did not fit into the letter; publish it with its headers under a new ID", onefold.ErrInvalid)
	}
	h := redriveHeader(l, next)
	m := &nats.Msg{Subject: l.Message.Subject, Header: nats.Header(h), Data: l.Message.Data}
	if checkSize(m, maxPayload) != nil {
		delete(h, HeaderRedriveHistory) // what is left is needed
	}
	return m, checkSize(m, maxPayload)
}

// redriveHeader is the header of a redriven message: that of the message, without what would control the
// server, and ours.
func redriveHeader(l *Letter, next onefold.Key) onefold.Header {
	h, others := onefold.Header{}, onefold.Header{}
	for name, values := range l.Message.Header {
		if controlsServer(name) || !canBeSent(name, values) {
			others[name] = values
		} else {
			h[name] = values
		}
	}
	// Consumers of streams that copy this one know the message by the transport ID that it had.
	if id := l.Message.Header[dedupe.HeaderTransportID]; len(id) > 0 && len(h[onefold.HeaderID]) == 0 {
		h[onefold.HeaderID] = id
	}
	set := func(name, value string) {
		if value != "" {
			h[name] = []string{value}
		}
	}
	scope, id, encoding := encodeIdentity(next)
	set(HeaderRedriveFor, l.Message.Stream+"/"+l.Message.Consumer)
	set(HeaderRedriveScope, scope)
	set(HeaderRedriveID, id)
	set(HeaderRedriveEncoding, encoding)
	if next.Gen > 0 {
		set(HeaderRedriveGen, strconv.FormatUint(uint64(next.Gen), 10))
	}
	set(HeaderRedriveOrigin, encodeOrigin(l.origin))
	if len(others) > 0 {
		set(HeaderRedriveOthers, encodeOthers(others))
	}
	h[HeaderRedriveHistory] = encodeHistory(l)
	set(dedupe.HeaderTransportID, redriveTransportID(l, next))
	set(jetstream.ExpectedStreamHeader, l.Message.Stream) // another stream may have taken the subject over
	return h
}

// redriveTransportID differs from the IDs of all earlier generations, which the server's duplicate window may
// still know, and is the same whenever a letter is redriven. What the message says is part of it, because an ID
// that was reused has two letters of one generation.
func redriveTransportID(l *Letter, next onefold.Key) string {
	k := next
	if k.ID == "" {
		k = onefold.Key{Scope: l.Message.Stream + "/" + l.Message.Consumer, Gen: next.Gen}
		k.ID = encodeOrigin(sample{Sequence: l.Message.Sequence, Time: l.Message.Time.UnixNano()})
	}
	return k.Derive("redrive", k.ID+"\x00"+dedupe.SubjectAndBody(&l.Message).String()).EffectID(0)
}

// maxHistory bounds the generations that a message remembers: the first, and the latest.
const maxHistory = 16

// encodeHistory is the history of l with its own end.
func encodeHistory(l *Letter) (lines []string) {
	all := append(l.History[:len(l.History):len(l.History)], PastGeneration{Gen: l.Key.Gen, Sequence: l.Message.Sequence, Time: l.Message.Time,
		Class: l.Class, Reason: l.Reason, Attempts: l.Attempts})
	if extra := len(all) - maxHistory; extra > 0 {
		all = append([]PastGeneration{all[0]}, all[1+extra:]...)
	}
	for _, past := range all {
		line, _ := json.Marshal(past) // strings, numbers and times of this era always encode
		lines = append(lines, string(line))
	}
	return lines
}

// The limits of the server, and what a header block takes beside its headers ("NATS/1.0" and line breaks).
const (
	maxHeaderBlock   = 1<<16 - 1
	headerBlockFrame = len("NATS/1.0\r\n\r\n")
)

// checkSize refuses a message that the server would.
func checkSize(m *nats.Msg, maxPayload int64) error {
	block := headerBlockFrame
	for name, values := range m.Header {
		for _, v := range values {
			block += len(name) + len(v) + len(": \r\n")
		}
	}
	switch whole := block + len(m.Data); {
	case block > maxHeaderBlock:
		return fmt.Errorf("%w: its headers take %d bytes with those of the redrive, the server's limit is %d; publish it under a new ID with fewer headers",
			onefold.ErrTooLarge, block, maxHeaderBlock)
	case int64(whole) > maxPayload:
		return fmt.Errorf("%w: it takes %d bytes with the headers of the redrive, the server's max_payload is %d; raise that, or publish it under a new ID",
			onefold.ErrTooLarge, whole, maxPayload)
	}
	return nil
}
