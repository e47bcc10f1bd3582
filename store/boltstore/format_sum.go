package boltstore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// sumLen is the size of the checksum that ends every value of layout version 2.
const sumLen = 4

// castagnoli makes CRC-32C, for which processors have an instruction. It is never changed.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errSum reports bytes that are not those that were written.
var errSum = errors.New("the checksum is wrong")

// sumOf is the checksum of a value under its bucket key, so that a value that stands under another key is
// found out as well.
func sumOf(key, value []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, key), castagnoli, value)
}

// summed returns the value with its checksum. It appends to value: one that has room for it is not copied.
func summed(key, value []byte) []byte {
	return binary.BigEndian.AppendUint32(value, sumOf(key, value))
}

// checked returns a stored value without its checksum, if that is right. Values of version 1 have none; what
// has another first byte is left to its parser, which refuses it.
func checked(key, stored []byte) ([]byte, error) {
	if len(stored) == 0 || stored[0] != valueV2 {
		return stored, nil
	}
	n := len(stored) - sumLen
	if n < 1 || binary.BigEndian.Uint32(stored[n:]) != sumOf(key, stored[:n]) {
		return nil, errSum
	}
	return stored[:n:n], nil
}

// timerValue is what stands under the key of a timer: the position of its unsent row.
func timerValue(at uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 1+8+sumLen), valueV2), at)
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
