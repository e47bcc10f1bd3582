package boltstore

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
)

// rootName is the one root bucket of the store; everything else in the main file belongs to others.
var rootName = []byte("onefold")

// The names of the buckets below the root, and of the values in meta.
var (
	metaName    = []byte("meta")
	segName     = []byte("seg")
	rowsName    = []byte("rows")
	parkedName  = []byte("parked")
	timersName  = []byte("timers")
	stateName   = []byte("state")
	expiryName  = []byte("stateexp")
	historyName = []byte("history")

	metaFormat  = []byte("format")  // layout version, 4 bytes
	metaID      = []byte("id")      // identity, 16 bytes
	metaHashKey = []byte("hashkey") // see hashKey, 16 bytes
	metaCreated = []byte("created") // wall clock, Unix nanoseconds, 8 bytes
	metaActive  = []byte("active")  // number of the active segment, 8 bytes
	metaHead    = []byte("head")    // see head
)

// buckets are the buckets of one transaction.
type buckets struct {
	meta, segment, rows, parked, timers, state, expiry, history *bolt.Bucket
}

// bucketsOf finds the buckets in tx. Errors: ErrDamaged if one is missing.
func bucketsOf(tx *bolt.Tx) (buckets, error) {
	var b buckets
	root := tx.Bucket(rootName)
	if root == nil {
		return b, fmt.Errorf("%w: bucket %q is missing", onefold.ErrDamaged, rootName)
	}
	for _, f := range []struct {
		name []byte
		to   **bolt.Bucket
	}{
		{metaName, &b.meta}, {segName, &b.segment}, {rowsName, &b.rows}, {parkedName, &b.parked}, {timersName, &b.timers},
		{stateName, &b.state}, {expiryName, &b.expiry}, {historyName, &b.history},
	} {
		if *f.to = root.Bucket(f.name); *f.to == nil {
			return b, fmt.Errorf("%w: bucket %q is missing", onefold.ErrDamaged, f.name)
		}
	}
	active := b.meta.Get(metaActive)
	if b.segment = b.segment.Bucket(active); b.segment == nil {
		return b, fmt.Errorf("%w: segment %x is missing", onefold.ErrDamaged, active)
	}
	// Positions only grow, so pages are filled to the end and never split in the middle.
	b.segment.FillPercent, b.rows.FillPercent = 1, 0.9
	return b, nil
}

// rowsOf is the bucket of the rows that wait, or of those that are parked.
func (b *buckets) rowsOf(parked bool) *bolt.Bucket {
	if parked {
		return b.parked
	}
	return b.rows
}

// createBuckets makes an empty store in tx.
func createBuckets(tx *bolt.Tx, id, secret [16]byte, created int64) error {
	root, err := tx.CreateBucket(rootName)
	if err != nil {
		return err
	}
	for _, name := range [][]byte{metaName, segName, rowsName, parkedName, timersName, stateName, expiryName, historyName} {
		if _, err := root.CreateBucket(name); err != nil {
			return err
		}
	}
	active := position(1)
	if _, err := root.Bucket(segName).CreateBucket(active); err != nil {
		return err
	}
	first := head{clean: true}
	meta := root.Bucket(metaName)
	for _, v := range []struct{ key, value []byte }{
		{metaFormat, binary.BigEndian.AppendUint32(nil, FormatVersion)},
		{metaID, id[:]},
		{metaHashKey, secret[:]},
		{metaCreated, binary.BigEndian.AppendUint64(nil, uint64(created))},
		{metaActive, active},
		{metaHead, first.encode()},
	} {
		if err := meta.Put(v.key, v.value); err != nil {
			return err
		}
	}
	return nil
}
