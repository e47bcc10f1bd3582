package boltstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/onefold-go/onefold"
)

// maxRawKey is how long the canonical form of a key may be to be stored as it is. Longer ones, and the
// keys of erased records, are stored as a digest.
const maxRawKey = 512

// The first byte of a key form.
const (
	formRaw    = 0
	formDigest = 1
)

// keyForm is how a key stands in stored values. Raw holds the canonical form of the key. A digest holds
// what is needed to find the key again without its bytes: the hash under which the index knows it and
// SHA-256 of the canonical form; for people also the generation and, unless the record is erased, the
// scope.
type keyForm struct {
	raw   []byte // canonical form; nil in a digest
	hash  uint64
	sum   [sha256.Size]byte
	gen   uint32
	scope string
}

// maxScopeShown bounds the scope in a digest.
const maxScopeShown = 256

// formOf returns the form that a key is stored in. canon is its canonical form and is not copied.
func formOf(k onefold.Key, canon []byte, hash uint64) keyForm {
	if len(canon) <= maxRawKey {
		return keyForm{raw: canon}
	}
	f := digestOf(canon, hash, k.Gen)
	if len(k.Scope) <= maxScopeShown {
		f.scope = k.Scope
	}
	return f
}

// digestOf returns the form that holds no byte of the key.
func digestOf(canon []byte, hash uint64, gen uint32) keyForm {
	return keyForm{hash: hash, sum: sha256.Sum256(canon), gen: gen}
}

// is reports whether f stands for the key with this canonical form.
func (f *keyForm) is(canon []byte) bool {
	if f.raw != nil {
		return bytes.Equal(f.raw, canon)
	}
	return f.sum == sha256.Sum256(canon)
}

// same reports whether f and g stand for one key.
func (f *keyForm) same(g *keyForm) bool {
	switch {
	case f.raw != nil:
		return g.is(f.raw)
	case g.raw != nil:
		return f.is(g.raw)
	}
	return f.sum == g.sum
}

// key is the key that f stands for, as far as it is known: of a digest the ID is the digest in hex.
func (f *keyForm) key() onefold.Key {
	if f.raw != nil {
		k, _ := parseKey(f.raw)
		return k
	}
	return onefold.Key{Scope: f.scope, ID: "sha256:" + hex.EncodeToString(f.sum[:]), Gen: f.gen}
}

func (f *keyForm) size() int { return 1 + sha256.Size + 8 + 4 + len(f.scope) + len(f.raw) }

// append appends f without a length; it takes the rest of whatever holds it.
func (f *keyForm) append(dst []byte) []byte {
	if f.raw != nil {
		return append(append(dst, formRaw), f.raw...)
	}
	dst = append(dst, formDigest)
	dst = binary.BigEndian.AppendUint64(dst, f.hash)
	dst = append(dst, f.sum[:]...)
	dst = binary.BigEndian.AppendUint32(dst, f.gen)
	return append(dst, f.scope...)
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
		f.gen = r.u32()
		f.scope = string(r.rest)
		return f, r.end()
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
