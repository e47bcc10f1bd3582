package outbox

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"

	"github.com/onefold-go/onefold"
)

// FingerprintVersion marks fingerprints made by Enqueue. Package dedupe has the versions below 32.
const FingerprintVersion uint8 = 32

// fingerprintOf digests what an entry makes visible: effects, writes, result. IDs follow from the key,
// and NotBefore is usually counted from the moment of the call, so neither is part of it.
func fingerprintOf(e *onefold.Entry) onefold.Fingerprint {
	d := digester{sha256.New()}
	d.text("onefold/enqueue/1")
	d.number(uint64(len(e.Effects)))
	for i := range e.Effects {
		d.effect(&e.Effects[i])
	}
	d.number(uint64(len(e.Writes)))
	for _, w := range e.Writes {
		d.text(w.Table)
		d.text(w.Key)
		d.bytes(w.Value)
		d.flag(w.Delete)
		d.number(uint64(w.Retain))
	}
	d.bytes(e.Result)
	f := onefold.Fingerprint{Version: FingerprintVersion}
	copy(f.Sum[:], d.h.Sum(nil))
	return f
}

// digester writes length-prefixed parts, so that bytes cannot move from one part to the next unnoticed.
type digester struct{ h hash.Hash }

func (d digester) effect(e *onefold.Effect) {
	for _, s := range []string{e.Kind, e.Conn, e.Target, e.OrderKey, e.Timer} {
		d.text(s)
	}
	d.flag(e.Cancel)
	d.flag(e.Once)
	d.bytes(e.Payload)
	d.number(uint64(len(e.Header)))
	for _, name := range slices.Sorted(maps.Keys(e.Header)) {
		d.text(name)
		d.number(uint64(len(e.Header[name])))
		for _, value := range e.Header[name] {
			d.text(value)
		}
	}
}

func (d digester) number(n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	d.h.Write(b[:])
}

func (d digester) flag(b bool) {
	if b {
		d.number(1)
		return
	}
	d.number(0)
}

func (d digester) bytes(b []byte) {
	d.number(uint64(len(b)))
	d.h.Write(b)
}

func (d digester) text(s string) { d.bytes([]byte(s)) }
