package boltstore

import (
	"encoding/binary"

	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// tally is the number of entries in each of the buckets that are counted, in the order of counted. It is
// written with every group, so that a page that has lost entries is found out: what is missing has no checksum.
type tally [9]uint64

// The places in a tally.
const (
	countRecords = iota // of all pieces of the journal together
	countRows
	countParked
	countTimers
	countState
	countExpiry
	countHistory
	countAttention
	countErased
)

// counted names the buckets of a tally.
func counted() [len(tally{})][]byte {
	return [...][]byte{segName, rowsName, parkedName, timersName, stateName, expiryName, historyName, attentionName, erasedName}
}

func (t *tally) encode() []byte {
	dst := append(make([]byte, 0, 1+8*len(t)+sum.Len), valueV2)
	for _, n := range t {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return dst
}

func parseTally(b []byte) (t tally, err error) {
	r := reader{rest: b}
	r.version()
	for i := range t {
		t[i] = r.u64()
	}
	return t, r.done()
}
