package boltstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/onefold-go/onefold"
)

// FormatVersion is the version of the stored layout that this package writes. docs/storage-format.md
// says what may change under one version and what needs a new one.
const FormatVersion = 2

// The first byte of a value is the version of its layout. Version 2 has the fields of version 1, and a checksum
// behind them; see checked.
const (
	valueV1 = 1
	valueV2 = 2
)

// errFormat reports stored bytes that no version of this package has written.
var errFormat = errors.New("stored bytes cannot be read")

// unreadable says what cannot be read. Bytes that a newer version has written are not damage.
func unreadable(err error, what string, args ...any) error {
	what = fmt.Sprintf(what, args...)
	if errors.Is(err, onefold.ErrNewerFormat) || errors.Is(err, onefold.ErrDamaged) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%w: %s: %w", onefold.ErrDamaged, what, err)
}

// checkFlags refuses flags that this version does not know: it would keep and act on half of what they say.
func checkFlags(what string, flags, known byte) error {
	if unknown := flags &^ known; unknown != 0 {
		return fmt.Errorf("%w: %s has flags %#02x, which this version does not know; use the newer version",
			onefold.ErrNewerFormat, what, unknown)
	}
	return nil
}

// reader walks over stored bytes. After the first read beyond the end every result is zero and bad is set,
// so that a parser checks once.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.rest) {
		r.bad, r.rest = true, nil
		return nil
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) u8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) i64() int64 { return int64(r.u64()) }

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if r.bad || n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count reads a number of things that take at least one byte each, so that a damaged number never makes
// a parser ask for more memory than the value has bytes.
func (r *reader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return 0
	}
	return int(n)
}

// bytes reads length-prefixed bytes; they share memory with the input.
func (r *reader) bytes() []byte { return r.take(r.count()) }

func (r *reader) text() string { return string(r.bytes()) }

// version reads the first byte of a value and checks it.
func (r *reader) version() {
	if v := r.u8(); v != valueV1 && v != valueV2 {
		r.bad, r.rest = true, nil
	}
}

// done is the verdict after the last field of a value that has no open end.
func (r *reader) done() error {
	if r.bad || len(r.rest) > 0 {
		return errFormat
	}
	return nil
}

// end is the verdict after a field that takes the rest.
func (r *reader) end() error {
	if r.bad {
		return errFormat
	}
	return nil
}

func appendText[T ~string | ~[]byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// position returns p as a bucket key: big-endian, so that bucket order is journal order.
func position(p uint64) []byte { return binary.BigEndian.AppendUint64(nil, p) }

// parsePosition reads what position wrote.
func parsePosition(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, errFormat
	}
	return binary.BigEndian.Uint64(b), nil
}
