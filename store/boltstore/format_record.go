package boltstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// The flags of a stored record.
const (
	recordHasResult  = 1 << 0 // a result follows
	recordResultLost = 1 << 1 // there was a result, and it is not kept
	recordErased     = 1 << 2
	recordFlags      = recordHasResult | recordResultLost | recordErased
)

// record is a finished key as it is stored. form and result share memory with the bytes they were parsed
// from.
type record struct {
	form        keyForm
	fingerprint onefold.Fingerprint
	outcome     onefold.Outcome
	flags       byte
	token       uint64
	at          int64         // wall clock of the commit, in Unix nanoseconds
	expires     time.Duration // store clock
	result      []byte
}

// recordHead is the size of a stored record without key and result, at most.
const recordHead = 1 + 1 + 1 + 1 + 16 + 8 + 8 + 8 + binary.MaxVarintLen32

// size is an upper bound of the encoded length, checksum included.
func (r *record) size() int { return recordHead + r.form.size() + len(r.result) + sum.Len }

// append appends the stored form of r.
func (r *record) append(dst []byte) []byte {
	dst = append(dst, valueV2, r.flags, byte(r.outcome), r.fingerprint.Version)
	dst = append(dst, r.fingerprint.Sum[:]...)
	dst = binary.BigEndian.AppendUint64(dst, r.token)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.at))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.expires))
	dst = r.form.append(binary.AppendUvarint(dst, uint64(r.form.size())))
	return append(dst, r.result...)
}

// The places of the outcome, and of the two fields that are only known when the entry is written.
const (
	recordOutcomeAt = 2
	recordTokenAt   = 4 + 16
	recordAtAt      = recordTokenAt + 8
	recordExpiresAt = recordAtAt + 8
)

// stampRecord sets the time of the commit and the end of life in an encoded record.
func stampRecord(encoded []byte, at int64, expires time.Duration) {
	binary.BigEndian.PutUint64(encoded[recordAtAt:], uint64(at))
	binary.BigEndian.PutUint64(encoded[recordExpiresAt:], uint64(expires))
}

// needsPerson reports whether an encoded record is one of a key that somebody has to look at.
func needsPerson(encoded []byte) bool {
	return onefold.Outcome(encoded[recordOutcomeAt]) != onefold.Succeeded
}

// parseRecord reads what append wrote.
func parseRecord(b []byte) (record, error) {
	r := reader{rest: b}
	r.version()
	rec := record{flags: r.u8(), outcome: onefold.Outcome(r.u8())}
	rec.fingerprint.Version = r.u8()
	copy(rec.fingerprint.Sum[:], r.take(16))
	rec.token, rec.at, rec.expires = r.u64(), r.i64(), time.Duration(r.i64())
	form := r.bytes()
	if r.bad {
		return record{}, errFormat
	}
	if rec.flags&^recordFlags != 0 || rec.outcome == 0 || rec.outcome > onefold.ParkedUnknown {
		return record{}, newerRecord(&rec)
	}
	var err error
	rec.form, err = parseForm(form)
	rec.result = r.rest
	return rec, err
}

// parseLife reads of a record what its segment has to know: its key form, not looked into, and its times.
func parseLife(b []byte) (record, error) {
	r := reader{rest: b}
	r.version()
	_ = r.take(3 + 16 + 8)
	rec := record{at: r.i64(), expires: time.Duration(r.i64())}
	form := reader{rest: r.bytes()}
	switch form.u8() {
	case formRaw:
		rec.form.raw = form.rest
	case formDigest:
		rec.form.hash = form.u64()
	default:
		return record{}, errFormat
	}
	return rec, errors.Join(r.end(), form.end())
}

// newerRecord names what this version does not know of a record.
func newerRecord(r *record) error {
	if err := checkFlags("record", r.flags, recordFlags); err != nil {
		return err
	}
	return fmt.Errorf("%w: record has outcome %d, which this version does not know; use the newer version",
		onefold.ErrNewerFormat, uint8(r.outcome))
}

// public is the record as the contract shows it, in memory of its own. key is the key it was asked for
// by; a zero key means that none was given. The key of an erased record is not known any more.
func (r *record) public(key onefold.Key) *onefold.Record {
	switch {
	case r.flags&recordErased != 0:
		key = onefold.Key{}
	case key.IsZero():
		key = r.form.key()
	}
	p := &onefold.Record{
		Key: key, Fingerprint: r.fingerprint, Outcome: r.outcome, ResultKept: r.flags&recordResultLost == 0,
		Token: r.token, At: time.Unix(0, r.at).UTC(), Erased: r.flags&recordErased != 0,
	}
	if r.flags&recordHasResult != 0 {
		p.Result = append([]byte{}, r.result...)
	}
	return p
}
