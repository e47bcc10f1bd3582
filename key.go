package onefold

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
)

// Key names one piece of work. Two deliveries with equal keys are the same work.
//
// Scope is "stream/consumer" unless configured otherwise: a durable name alone is unique only inside one
// stream, so two consumers of one name on two streams must not share marks. ID is the message ID; any
// bytes are allowed. Gen is 0 for the original and grows by one with each deliberate redo; it is part of
// the identity, so every ID derived from a Key differs between generations.
type Key struct {
	Scope string
	ID    string
	Gen   uint32
}

// IsZero reports whether k names nothing.
func (k Key) IsZero() bool { return k == Key{} }

// Append appends the canonical form of k to dst: each part is preceded by its length, so that no two
// keys have the same form whatever separators their parts contain.
func (k Key) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(k.Scope)))
	dst = append(dst, k.Scope...)
	dst = binary.AppendUvarint(dst, uint64(len(k.ID)))
	dst = append(dst, k.ID...)
	return binary.AppendUvarint(dst, uint64(k.Gen))
}

// Derive returns the key of a side outcome of k, for instance the dead letter of a message that reuses
// k's ID with another payload. kind separates the derived key from k and from other kinds; id
// distinguishes derived keys of one kind.
func (k Key) Derive(kind, id string) Key {
	return Key{Scope: k.Scope + "\x00" + kind, ID: id, Gen: k.Gen}
}

// EffectID is the ID of the index-th effect of k. It is a pure function of both, so a rerun of a handler
// gives the same IDs to the same effects.
func (k Key) EffectID(index int) string { return k.digest("effect", strconv.Itoa(index)) }

// TimerID is the ID under which a timer of this name leaves that k has set last. See [Row.LeavesAs].
func (k Key) TimerID(name string) string { return k.digest("timer", name) }

// timerPlace is the ID by which a timer of this name takes the place of an unsent one, or cancels it, whichever key of
// the scope has set that.
func (k Key) timerPlace(name string) string { return Key{Scope: k.Scope}.digest("place", name) }

// IdempotencyKey is a key for one outside call made for k, to be passed on to the called service.
// It is stable over reruns and differs between names, keys and generations.
func (k Key) IdempotencyKey(name string) string { return k.digest("call", name) }

// digest is 128 bits of SHA-256 over a versioned domain, the canonical key and the name, in hex.
func (k Key) digest(domain, name string) string {
	var stack [256]byte
	b := append(stack[:0], "onefold/1/"...)
	b = append(b, domain...)
	b = append(b, 0)
	b = k.Append(b)
	b = append(b, name...)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// maxShownID is how many bytes of an ID are shown to people.
const maxShownID = 64

// String shows k to people: quoted, cut and on one line, so that an ID with line breaks, control
// characters or megabytes never reaches a log raw. It is not the canonical form.
func (k Key) String() string {
	s := showID(k.Scope) + "/" + showID(k.ID)
	if k.Gen > 0 {
		s += "#" + strconv.FormatUint(uint64(k.Gen), 10)
	}
	return s
}

// showID returns id as it may stand in a log line.
func showID(id string) string {
	if len(id) <= maxShownID {
		quoted := strconv.QuoteToASCII(id)
		if len(quoted) == len(id)+2 {
			return id
		}
		return quoted
	}
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf("%s...(%d bytes, sha256 %x)", strconv.QuoteToASCII(id[:maxShownID]), len(id), sum[:4])
}
