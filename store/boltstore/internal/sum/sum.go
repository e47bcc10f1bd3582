// Package sum makes and checks the checksum that ends a stored value.
//
// It may import the standard library.
package sum

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Len is the size of a checksum.
const Len = 4

// Err reports bytes that are not those that were written.
var Err = errors.New("the checksum is wrong")

// castagnoli makes CRC-32C, for which processors have an instruction. It is never changed.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Of is CRC-32C over the parts, one after the other.
func Of(parts ...[]byte) (sum uint32) {
	for _, p := range parts {
		sum = crc32.Update(sum, castagnoli, p)
	}
	return sum
}

// Append returns the value with its checksum, which covers its bucket key as well: a value that stands under
// another key is found out. It appends to value; one that has room for it is not copied.
func Append(key, value []byte) []byte {
	return binary.BigEndian.AppendUint32(value, Of(key, value))
}

// Cut returns a stored value without its checksum, if that is right. Errors: Err.
func Cut(key, stored []byte) ([]byte, error) {
	n := len(stored) - Len
	if n < 0 || binary.BigEndian.Uint32(stored[n:]) != Of(key, stored[:n]) {
		return nil, Err
	}
	return stored[:n:n], nil
}
