package sealed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// Kind is what a file holds.
type Kind uint8

// The kinds of files.
const (
	KindRecords Kind = 1 // records by position
	KindIndex   Kind = 2 // positions by hash
)

// String names the kind.
func (k Kind) String() string {
	switch k {
	case KindRecords:
		return "segment"
	case KindIndex:
		return "index"
	}
	return "unknown"
}

// Head says what a file is. The store keeps a copy of the head of each file that counts.
type Head struct {
	Kind    Kind
	Store   [16]byte      // identity of the store
	File    [16]byte      // drawn for this file alone
	First   uint64        // positions from here on are covered
	End     uint64        // and before here
	Records uint64        // how many records, or entries, it holds
	Expires time.Duration // store clock at which the last of its records expires; 0 in an index
	Written int64         // wall clock of the oldest record, Unix nanoseconds; 0 in an index
	Bits    uint8         // index: entries stand in 1<<Bits blocks by the highest bits of their hash
	Shards  uint8         // index: the filter has 1<<Shards shards, likewise
}

// headV1 is the first byte of a head and of a block.
const (
	headV1  = 1
	headLen = 1 + 1 + 16 + 16 + 8 + 8 + 8 + 8 + 8 + 1 + 1
)

// errFormat reports bytes that no version of this package has written.
var errFormat = errors.New("stored bytes cannot be read")

// Encode returns the stored form of h, without a checksum.
func (h *Head) Encode() []byte {
	b := make([]byte, 0, headLen+sum.Len)
	b = append(b, headV1, byte(h.Kind))
	b = append(append(b, h.Store[:]...), h.File[:]...)
	for _, v := range []uint64{h.First, h.End, h.Records, uint64(h.Expires), uint64(h.Written)} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return append(b, h.Bits, h.Shards)
}

// ParseHead reads what Encode wrote.
func ParseHead(b []byte) (Head, error) {
	if len(b) != headLen || b[0] != headV1 {
		return Head{}, errFormat
	}
	h := Head{Kind: Kind(b[1])}
	copy(h.Store[:], b[2:])
	copy(h.File[:], b[18:])
	n := func(i int) uint64 { return binary.BigEndian.Uint64(b[34+8*i:]) }
	h.First, h.End, h.Records = n(0), n(1), n(2)
	h.Expires, h.Written = time.Duration(n(3)), int64(n(4))
	h.Bits, h.Shards = b[headLen-2], b[headLen-1]
	if h.Kind != KindRecords && h.Kind != KindIndex || h.First >= h.End || h.Bits > maxBits || h.Shards > maxBits {
		return Head{}, errFormat
	}
	return h, nil
}

// Covers reports whether a position lies in the range of the file.
func (h *Head) Covers(position uint64) bool { return h.First <= position && position < h.End }

// Differs says in what h is not the head that was expected, or nil.
func (h *Head) Differs(want *Head) error {
	switch {
	case *h == *want:
		return nil
	case h.Store != want.Store:
		return fmt.Errorf("it belongs to store %x and this is %x", h.Store, want.Store)
	case h.Kind != want.Kind || h.First != want.First || h.End != want.End:
		return fmt.Errorf("it is the %v of positions %d to %d and should be the %v of %d to %d",
			h.Kind, h.First, h.End-1, want.Kind, want.First, want.End-1)
	}
	return fmt.Errorf("it is another copy of the %v of positions %d to %d: %x and not %x", h.Kind, h.First, h.End-1, h.File, want.File)
}
