package boltstore

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// The flags of a stored row.
const (
	rowTried = 1 << 0 // a Once call was announced
	rowHold  = 1 << 1 // parked, and later rows of its OrderKey wait
	rowOnce  = 1 << 2 // Effect.Once
	rowFlags = rowTried | rowHold | rowOnce
)

// rowHeadLen is the size of the part of a row that settlements change.
const rowHeadLen = 1 + 1 + 4 + 8 + 8 + 8 + 8 + 8 + 8

// rowHead is the part of a row that settlements change; it has a fixed size and stands first.
type rowHead struct {
	flags    byte
	attempts uint32        // how often it was handed out, as far as durable
	delayed  int64         // wall clock it is delayed to, in Unix nanoseconds; noTime: not delayed
	delay    time.Duration // store clock at which that delay is over at the latest
	stored   time.Duration // store clock of the commit
	wall     int64         // wall clock of the commit, in Unix nanoseconds
	parkedAt int64         // wall clock of its parking, in Unix nanoseconds; noTime: not parked
	record   uint64        // position of its record
}

// noTime stands for a time that is not set.
const noTime = math.MinInt64

// row is one effect as it is stored.
type row struct {
	rowHead
	reason string
	key    onefold.Key
	effect onefold.Effect
}

func (h *rowHead) append(dst []byte) []byte {
	dst = append(dst, valueV2, h.flags)
	dst = binary.BigEndian.AppendUint32(dst, h.attempts)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.delayed))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.delay))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.stored))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.wall))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.parkedAt))
	return binary.BigEndian.AppendUint64(dst, h.record)
}

func (r *reader) rowHead() rowHead {
	r.version()
	return rowHead{
		flags: r.u8(), attempts: r.u32(), delayed: r.i64(),
		delay: time.Duration(r.i64()), stored: time.Duration(r.i64()),
		wall: r.i64(), parkedAt: r.i64(), record: r.u64(),
	}
}

// size is an upper bound of the encoded length, checksum included.
func (w *row) size() int {
	const lengths = 11 * binary.MaxVarintLen32
	e := &w.effect
	n := rowHeadLen + lengths + 8 + sum.Len + len(w.reason) + len(w.key.Scope) + len(w.key.ID) +
		len(e.ID) + len(e.Kind) + len(e.Conn) + len(e.Target) + len(e.OrderKey) + len(e.Timer) + len(e.Payload)
	for name, values := range e.Header {
		n += 2*binary.MaxVarintLen32 + len(name)
		for _, v := range values {
			n += binary.MaxVarintLen32 + len(v)
		}
	}
	return n
}

// append appends the stored form of w.
func (w *row) append(dst []byte) []byte {
	if w.effect.Once {
		w.flags |= rowOnce
	}
	dst = w.rowHead.append(dst)
	dst = appendText(dst, w.reason)
	return w.appendBody(dst)
}

// appendBody appends what no settlement changes.
func (w *row) appendBody(dst []byte) []byte {
	e := &w.effect
	dst = appendText(dst, e.OrderKey)
	dst = binary.BigEndian.AppendUint64(dst, uint64(unixOrNone(e.NotBefore)))
	dst = appendText(dst, e.ID)
	dst = appendText(dst, e.Timer)
	dst = appendText(dst, e.Kind)
	dst = appendText(dst, e.Conn)
	dst = appendText(dst, e.Target)
	dst = w.key.Append(dst)
	dst = binary.AppendUvarint(dst, uint64(len(e.Header)))
	for _, name := range sortedNames(e.Header) {
		dst = appendText(dst, name)
		dst = binary.AppendUvarint(dst, uint64(len(e.Header[name])))
		for _, v := range e.Header[name] {
			dst = appendText(dst, v)
		}
	}
	return append(dst, e.Payload...)
}

// sortedNames makes the stored form of a header independent of map order, so that equal entries have
// equal bytes.
func sortedNames(h onefold.Header) []string {
	if len(h) == 0 {
		return nil
	}
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// rowSummary is what memory keeps of a waiting row.
type rowSummary struct {
	rowHead
	orderKey  string
	notBefore int64
	timer     string // effect ID if the row is a timer
	canon     []byte // canonical key; shares memory with the stored row
}

// parseSummary reads the front of a stored row.
func parseSummary(b []byte) (rowSummary, error) {
	r := reader{rest: b}
	s := rowSummary{rowHead: r.rowHead()}
	_ = r.bytes()
	s.orderKey, s.notBefore = r.text(), r.i64()
	id, timer := r.bytes(), r.bytes()
	if len(timer) > 0 {
		s.timer = string(id)
	}
	_, _, _ = r.bytes(), r.bytes(), r.bytes() // kind, connection, target
	key := r.rest
	_, _, _ = r.bytes(), r.bytes(), r.uvarint()
	s.canon = key[:len(key)-len(r.rest)]
	if err := r.end(); err != nil {
		return s, err
	}
	return s, checkFlags("row", s.flags, rowFlags)
}

// parseRow reads what append wrote, into memory of its own.
func parseRow(b []byte) (row, error) {
	r := reader{rest: b}
	w := row{rowHead: r.rowHead(), reason: r.text()}
	e := &w.effect
	e.Once = w.flags&rowOnce != 0
	e.OrderKey = r.text()
	if t := r.i64(); t != noTime {
		e.NotBefore = time.Unix(0, t).UTC()
	}
	e.ID, e.Timer, e.Kind, e.Conn, e.Target = r.text(), r.text(), r.text(), r.text(), r.text()
	w.key = onefold.Key{Scope: r.text(), ID: r.text(), Gen: uint32(r.uvarint())}
	e.Header = r.header()
	if len(r.rest) > 0 {
		e.Payload = slices.Clone(r.rest)
	}
	if err := r.end(); err != nil {
		return w, err
	}
	return w, checkFlags("row", w.flags, rowFlags)
}

func (r *reader) header() onefold.Header {
	n := r.count()
	if n == 0 {
		return nil
	}
	h := make(onefold.Header, min(n, 8))
	for range n {
		name, values := r.text(), r.count()
		list := make([]string, 0, min(values, 8))
		for range values {
			list = append(list, r.text())
		}
		if r.bad {
			return nil
		}
		h[name] = list
	}
	return h
}

// parseRowHead reads the part of a stored row that settlements change.
func parseRowHead(b []byte) (rowHead, error) {
	r := reader{rest: b}
	h := r.rowHead()
	if err := r.end(); err != nil {
		return h, err
	}
	return h, checkFlags("row", h.flags, rowFlags)
}

// rewriteRow returns a row with another head and reason.
func rewriteRow(b []byte, head rowHead, reason string) ([]byte, error) {
	r := reader{rest: b}
	_ = r.rowHead()
	_ = r.bytes()
	if r.bad {
		return nil, errFormat
	}
	dst := make([]byte, 0, rowHeadLen+binary.MaxVarintLen32+len(reason)+len(r.rest)+sum.Len)
	return append(appendText(head.append(dst), reason), r.rest...), nil
}

// unixOrNone is t in Unix nanoseconds. Times that do not fit (after the year 2262) count as the last one
// that does, times before 1970 as 1970.
func unixOrNone(t time.Time) int64 {
	switch {
	case t.IsZero():
		return noTime
	case t.Year() > 2261:
		return math.MaxInt64
	case t.Year() < 1970:
		return 0
	}
	return t.UnixNano()
}
