package boltstore

import (
	"encoding/binary"

	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// checked returns a stored value without its checksum, if that is right. Values of version 1 have none; what
// has another first byte is left to its parser, which refuses it.
func checked(key, stored []byte) ([]byte, error) {
	if len(stored) == 0 || stored[0] != valueV2 {
		return stored, nil
	}
	return sum.Cut(key, stored)
}

// timerValue is what stands under the key of a timer: the position of its unsent row.
func timerValue(at uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 1+8+sum.Len), valueV2), at)
}

// parseTimerValue reads what timerValue wrote. In version 1 the position stood alone.
func parseTimerValue(b []byte) (uint64, error) {
	if len(b) == 8 {
		return parsePosition(b)
	}
	r := reader{rest: b}
	r.version()
	at := r.u64()
	return at, r.done()
}
