package boltstore

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
)

// rootName is the one root bucket of the store; everything else in the main file belongs to others.
var rootName = []byte("onefold")

// The names of the buckets below the root.
var (
	metaName      = []byte("meta")
	segName       = []byte("seg")
	rowsName      = []byte("rows")
	parkedName    = []byte("parked")
	timersName    = []byte("timers")
	stateName     = []byte("state")
	expiryName    = []byte("stateexp")
	historyName   = []byte("history")
	attentionName = []byte("attention")
	erasedName    = []byte("erased")
)

// buckets are the buckets of one transaction.
type buckets struct {
	meta *bolt.Bucket // see meta.go

	journal                                                         journal
	rows, parked, timers, state, expiry, history, attention, erased bucket
}

// all are the buckets that are counted, in the order of a tally.
func (b *buckets) all() [len(tally{})]*bucket {
	return [...]*bucket{
		&b.journal.bucket, &b.rows, &b.parked, &b.timers, &b.state, &b.expiry, &b.history, &b.attention, &b.erased,
	}
}

// bucketsOf finds the buckets in tx. Errors: ErrDamaged if one is missing.
func bucketsOf(tx *bolt.Tx) (buckets, error) {
	var b buckets
	root := tx.Bucket(rootName)
	if root == nil {
		return b, missing(rootName)
	}
	if b.meta = root.Bucket(metaName); b.meta == nil {
		return b, missing(metaName)
	}
	all := b.all()
	for i, name := range counted() {
		to := all[i]
		*to = bucket{raw: root.Bucket(name), name: name}
		if to.raw == nil && (i < countAttention || formatOf(b.meta) != 1) {
			return b, missing(name)
		}
	}
	b.rows.raw.FillPercent = 0.9 // positions only grow, so pages are seldom split in the middle
	return b, nil
}

func missing(name []byte) error {
	return fmt.Errorf("%w: bucket %q is missing", onefold.ErrDamaged, name)
}

// countIn makes the writes of a transaction count in t.
func (b *buckets) countIn(t *tally) {
	for i, one := range b.all() {
		one.entries = &t[i]
	}
}

// rowsOf is the bucket of the rows that wait, or of those that are parked.
func (b *buckets) rowsOf(parked bool) *bucket {
	if parked {
		return &b.parked
	}
	return &b.rows
}

// createBuckets makes an empty store in tx.
func createBuckets(tx *bolt.Tx, id, secret [16]byte, created int64) error {
	root, err := tx.CreateBucket(rootName)
	if err != nil {
		return err
	}
	meta, err := root.CreateBucket(metaName)
	if err != nil {
		return err
	}
	for _, name := range counted() {
		if _, err := root.CreateBucket(name); err != nil {
			return err
		}
	}
	for _, v := range []struct{ key, value []byte }{
		{metaFormat, binary.BigEndian.AppendUint32(nil, FormatVersion)},
		{metaSince, binary.BigEndian.AppendUint32(nil, FormatVersion)},
		{metaID, id[:]},
		{metaHashKey, secret[:]},
		{metaCreated, binary.BigEndian.AppendUint64(nil, uint64(created))},
	} {
		if err := meta.Put(v.key, v.value); err != nil {
			return err
		}
	}
	if err := putConstantsSum(meta); err != nil {
		return err
	}
	if err := putRegistry(meta, nil); err != nil {
		return err
	}
	return putHead(meta, &head{clean: true})
}
