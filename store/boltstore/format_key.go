package boltstore

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/dchest/siphash"

	"github.com/onefold-go/onefold"
)

// hashKey is the secret of one store. It is drawn when the store is made and never changes, since digests
// that were made with it are stored.
type hashKey [2]uint64

// hash is the hash that the index knows a key by. That of any two different keys may be equal; who uses it
// compares keys.
func (k hashKey) hash(canon []byte) uint64 { return siphash.Hash(k[0], k[1], canon) }

// digest is HMAC-SHA-256 of the canonical form of a key. Without the secret nobody can try out guesses.
func (k hashKey) digest(canon []byte) (sum [sha256.Size]byte) {
	secret := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, k[0]), k[1])
	mac := hmac.New(sha256.New, secret)
	mac.Write(bytes.Clone(canon)) // the caller may have it on its stack, which keeps Begin from allocating
	mac.Sum(sum[:0])
	return sum
}

// maxRawKey is how long the canonical form of a key may be to name its history as it is: bbolt limits the
// keys of buckets. Longer ones are named by their digest.
const maxRawKey = 512

// The first byte of a key form.
const (
	formRaw    = 0
	formDigest = 1
)

// keyForm is how a key stands in stored values. Raw holds the canonical form of the key. A digest holds
// what is needed to find the key again without its bytes: the hash under which the index knows it and its
// digest.
type keyForm struct {
	raw  []byte // canonical form; nil in a digest
	hash uint64
	sum  [sha256.Size]byte
}

// digestLen is the length of a digest form.
const digestLen = 1 + 8 + sha256.Size

// digestOf returns the form that holds no byte of the key.
func digestOf(canon []byte, hash uint64, key hashKey) keyForm {
	return keyForm{hash: hash, sum: key.digest(canon)}
}

// canonOf is the canonical form of a key.
func canonOf(k *onefold.Key) []byte {
	return k.Append(make([]byte, 0, len(k.Scope)+len(k.ID)+3*binary.MaxVarintLen32))
}

// historyForm returns the form that names the history of a key. canon is not copied.
func historyForm(canon []byte, hash uint64, key hashKey) keyForm {
	if len(canon) <= maxRawKey {
		return keyForm{raw: canon}
	}
	return digestOf(canon, hash, key)
}

// is reports whether f stands for the key with this canonical form and hash.
func (f *keyForm) is(canon []byte, hash uint64, key hashKey) bool {
	if f.raw != nil {
		return bytes.Equal(f.raw, canon)
	}
	return f.hash == hash && f.sum == key.digest(canon)
}

// same reports whether f and g stand for one key.
func (f *keyForm) same(g *keyForm, key hashKey) bool {
	switch {
	case f.raw != nil && g.raw != nil:
		return bytes.Equal(f.raw, g.raw)
	case f.raw != nil:
		return g.sum == key.digest(f.raw)
	case g.raw != nil:
		return f.sum == key.digest(g.raw)
	}
	return f.sum == g.sum
}

// key is the key that f stands for; zero if it is a digest.
func (f *keyForm) key() onefold.Key {
	k, _ := parseKey(f.raw)
	return k
}

// size is the encoded length.
func (f *keyForm) size() int {
	if f.raw != nil {
		return 1 + len(f.raw)
	}
	return digestLen
}

// append appends f without a length; it takes the rest of whatever holds it.
func (f *keyForm) append(dst []byte) []byte {
	if f.raw != nil {
		return append(append(dst, formRaw), f.raw...)
	}
	dst = append(dst, formDigest)
	dst = binary.BigEndian.AppendUint64(dst, f.hash)
	return append(dst, f.sum[:]...)
}

// parseForm reads what append wrote; a raw form shares memory with b.
func parseForm(b []byte) (keyForm, error) {
	r := reader{rest: b}
	switch r.u8() {
	case formRaw:
		if r.bad {
			return keyForm{}, errFormat
		}
		if _, err := parseKey(r.rest); err != nil {
			return keyForm{}, err
		}
		return keyForm{raw: r.rest}, nil
	case formDigest:
		f := keyForm{hash: r.u64()}
		copy(f.sum[:], r.take(sha256.Size))
		return f, r.done()
	}
	return keyForm{}, errFormat
}

// parseKey reads the canonical form of a key.
func parseKey(b []byte) (onefold.Key, error) {
	r := reader{rest: b}
	k := onefold.Key{Scope: r.text(), ID: r.text()}
	gen := r.uvarint()
	if gen > 1<<32-1 {
		return onefold.Key{}, errFormat
	}
	k.Gen = uint32(gen)
	return k, r.done()
}
