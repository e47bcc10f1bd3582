package boltstore

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// encoded is an entry as the writer takes it: everything that can be done outside the writer is done, and
// only positions, versions and times are filled in there.
type encoded struct {
	canon  []byte // canonical key
	record []byte // nil: the entry stores no record
	retain time.Duration
	more   *more // nil: nothing but a record
}

// more is what only some entries have. It stands apart because entries without it are many.
type more struct {
	reads  []stateRead
	writes []stateWrite
	rows   []rowWrite
	refs   []*rowRef // of the rows, once they are written
	joins  []onefold.Join
	denied error // a join has failed in an earlier try of the group
}

type stateRead struct {
	key     []byte
	version uint64
}

type stateWrite struct {
	key    []byte
	value  []byte // nil: delete
	retain time.Duration
}

// rowWrite is one effect. A timer first removes the row that has its ID; a cancelled one has no value.
type rowWrite struct {
	value []byte
	timer []byte // bucket key of the timer; nil: none
}

// encode fills in f.encoded from its entry and adds up what it takes.
func (f *flight) encode(e *onefold.Entry) load {
	l := load{entries: 1, grows: true}
	x := &f.encoded
	if f.claim != nil {
		x.encodeRecord(e, f.claim, &l)
	}
	if len(e.Reads)+len(e.Writes)+len(e.Effects)+len(e.Joins) == 0 {
		return l
	}
	x.more = &more{joins: e.Joins}
	l.joins = min(len(e.Joins), 1)
	x.more.encodeState(e, &l)
	for i := range e.Effects {
		x.more.encodeEffect(e, &e.Effects[i], &l)
	}
	return l
}

func (x *encoded) encodeRecord(e *onefold.Entry, c *claim, l *load) {
	// One piece of memory holds the canonical key and, behind it, the record that repeats it.
	room := 2*(len(e.Key.Scope)+len(e.Key.ID)+3*binary.MaxVarintLen32) + recordHead + 1 + len(e.Result) + sum.Len
	buffer := make([]byte, 0, room)
	buffer = e.Key.Append(buffer)
	n := len(buffer)
	x.canon = buffer[:n:n]
	r := record{form: keyForm{raw: x.canon}, fingerprint: e.Fingerprint, outcome: e.Outcome, token: c.public.Token, result: e.Result}
	if e.Result != nil {
		r.flags |= recordHasResult
	}
	x.record = r.append(buffer)[n:]
	x.retain = e.Retain
	// The writer adds what goes with it: an expired record of the key, and its history.
	size := len(x.record) + sum.Len
	l.add(load{bytes: size + 8 + leafElementLen, largest: size})
	if needsPerson(x.record) {
		l.add(load{bytes: size + 8 + leafElementLen, puts: 1})
	}
}

func (x *more) encodeState(e *onefold.Entry, l *load) {
	x.reads = make([]stateRead, len(e.Reads))
	for i := range e.Reads {
		r := &e.Reads[i]
		x.reads[i] = stateRead{stateKey(r.Table, r.Key), r.Version}
	}
	x.writes = make([]stateWrite, len(e.Writes))
	for i := range e.Writes {
		w := &e.Writes[i]
		key := stateKey(w.Table, w.Key)
		var stored []byte
		if !w.Delete {
			v := value{data: w.Value}
			stored = v.append(make([]byte, 0, valueHeadLen+len(w.Value)+sum.Len))
		}
		x.writes[i] = stateWrite{key, stored, w.Retain}
		l.add(load{bytes: 2*len(key) + len(stored) + 16 + 3*sum.Len, puts: 3, largest: len(stored) + sum.Len})
	}
}

// stampValue sets version and end of life in an encoded value of state.
func stampValue(encoded []byte, version uint64, expires time.Duration) {
	binary.BigEndian.PutUint64(encoded[1:], version)
	binary.BigEndian.PutUint64(encoded[9:], uint64(expires))
}

func (x *more) encodeEffect(e *onefold.Entry, effect *onefold.Effect, l *load) {
	var w rowWrite
	if effect.Timer != "" {
		w.timer = timerKey(effect.ID)
		l.puts += 4
	}
	if !effect.Cancel {
		r := row{rowHead: rowHead{delayed: noTime, parkedAt: noTime}, key: e.Key, effect: *effect}
		w.value = r.append(make([]byte, 0, r.size()))
		size := len(w.value) + sum.Len
		l.add(load{bytes: size + 8 + leafElementLen, largest: size})
	}
	l.bytes += len(w.timer) + 1 + 8 + sum.Len
	x.rows = append(x.rows, w)
}

// The places of the row fields that are only known when the entry is written.
const (
	rowStoredAt = 2 + 4 + 8 + 8
	rowWallAt   = rowStoredAt + 8
	rowRecordAt = rowWallAt + 8 + 8
)

// stampRow sets the time of the commit, by both clocks, and the position of the record in an encoded row.
func stampRow(encoded []byte, stored time.Duration, wall int64, record uint64) {
	binary.BigEndian.PutUint64(encoded[rowWallAt:], uint64(wall))
	binary.BigEndian.PutUint64(encoded[rowStoredAt:], uint64(stored))
	binary.BigEndian.PutUint64(encoded[rowRecordAt:], record)
}

// maxTimerKey is how long an effect ID may be to name its timer by itself.
const maxTimerKey = 128

// timerKey is the bucket key of a timer. Its first byte keeps IDs and their digests apart.
func timerKey(id string) []byte {
	if len(id) <= maxTimerKey {
		return append([]byte{formRaw}, id...)
	}
	sum := sha256.Sum256([]byte(id))
	return append([]byte{formDigest}, sum[:]...)
}
