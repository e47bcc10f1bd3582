package boltstore

import (
	"encoding/binary"
	"time"

	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// value is one value of state as it is stored; data shares memory with the bytes it was parsed from.
type value struct {
	version uint64
	expires time.Duration // store clock; 0: never
	data    []byte
}

// valueHeadLen is the size of a stored value of state without its data.
const valueHeadLen = 1 + 8 + 8

func (v *value) append(dst []byte) []byte {
	dst = append(dst, valueV2)
	dst = binary.BigEndian.AppendUint64(dst, v.version)
	dst = binary.BigEndian.AppendUint64(dst, uint64(v.expires))
	return append(dst, v.data...)
}

func parseValue(b []byte) (value, error) {
	r := reader{rest: b}
	r.version()
	v := value{version: r.u64(), expires: time.Duration(r.i64())}
	v.data = r.rest
	return v, r.end()
}

// live reports whether the value counts at this store clock.
func (v *value) live(now time.Duration) bool {
	return v.version != 0 && (v.expires == 0 || now < v.expires)
}

// stateKey is the bucket key of a value: the table with its length, then the key.
func stateKey(table, key string) []byte {
	return append(appendText(make([]byte, 0, len(table)+len(key)+2), table), key...)
}

// parseStateKey reads what stateKey wrote.
func parseStateKey(b []byte) (table, key string, err error) {
	r := reader{rest: b}
	table = r.text()
	return table, string(r.rest), r.end()
}

// expiryKey is the bucket key of the index by end of life.
func expiryKey(expires time.Duration, stateKey []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(expires)), stateKey...)
}

// parseExpiryKey reads what expiryKey wrote.
func parseExpiryKey(b []byte) (expires time.Duration, stateKey []byte, err error) {
	r := reader{rest: b}
	expires = time.Duration(r.i64())
	return expires, r.rest, r.end()
}

// attempts is what is kept of a key without an outcome.
type attempts struct {
	starts, failures uint32
	first            int64         // wall clock, in Unix nanoseconds
	touched          time.Duration // store clock
	reason           string
}

// attemptsHead is the size of stored attempts without reason and checksum.
const attemptsHead = 1 + 4 + 4 + 8 + 8

func (a *attempts) append(dst []byte) []byte {
	dst = append(dst, valueV2)
	dst = binary.BigEndian.AppendUint32(dst, a.starts)
	dst = binary.BigEndian.AppendUint32(dst, a.failures)
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.first))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.touched))
	return append(dst, a.reason...)
}

func parseAttempts(b []byte) (attempts, error) {
	r := reader{rest: b}
	r.version()
	a := attempts{starts: r.u32(), failures: r.u32(), first: r.i64(), touched: time.Duration(r.i64())}
	a.reason = string(r.rest)
	return a, r.end()
}

// head is the part of the meta bucket that every group writes.
type head struct {
	epoch    uint64
	position uint64        // last one given out
	clock    time.Duration // store clock
	longest  time.Duration // longest retention seen
	clean    bool          // closed in order

	// tally stands in meta by itself.
	tally tally
}

// headClean is the only flag of a head.
const headClean = 1 << 0

// headLen is the size of a head without its checksum.
const headLen = 1 + 1 + 4*8

func (h *head) encode() []byte {
	dst := append(make([]byte, 0, headLen+sum.Len), valueV2, 0)
	if h.clean {
		dst[1] = headClean
	}
	dst = binary.BigEndian.AppendUint64(dst, h.epoch)
	dst = binary.BigEndian.AppendUint64(dst, h.position)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.clock))
	return binary.BigEndian.AppendUint64(dst, uint64(h.longest))
}

func parseHead(b []byte) (head, error) {
	r := reader{rest: b}
	r.version()
	flags := r.u8()
	h := head{clean: flags&headClean != 0, epoch: r.u64(), position: r.u64()}
	h.clock, h.longest = time.Duration(r.i64()), time.Duration(r.i64())
	if err := r.done(); err != nil {
		return h, err
	}
	return h, checkFlags("head", flags, headClean)
}
