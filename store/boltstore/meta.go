package boltstore

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// The keys of the bucket meta.
var (
	metaFormat  = []byte("format")  // layout version, 4 bytes
	metaSince   = []byte("since")   // layout version in which the store was made, 4 bytes
	metaID      = []byte("id")      // identity, 16 bytes
	metaHashKey = []byte("hashkey") // see hashKey, 16 bytes
	metaCreated = []byte("created") // wall clock, Unix nanoseconds, 8 bytes
	metaSum     = []byte("sum")     // checksum of the constants, 4 bytes
	metaFiles   = []byte("files")   // see registry
	metaHead    = []byte("head")    // see head
	metaTally   = []byte("tally")   // see tally
)

// formatOf is the layout version of the store, or 0 if it cannot be read.
func formatOf(meta *bolt.Bucket) uint32 { return parseFormat(meta.Get(metaFormat)) }

func parseFormat(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// constantsSum is the checksum of what stays as it is while the format does, keys included.
func constantsSum(get func(key []byte) []byte) []byte {
	var parts [][]byte
	for _, key := range [][]byte{metaFormat, metaSince, metaID, metaHashKey, metaCreated} {
		parts = append(parts, key, get(key))
	}
	return binary.BigEndian.AppendUint32(nil, sum.Of(parts...))
}

func putConstantsSum(meta *bolt.Bucket) error { return meta.Put(metaSum, constantsSum(meta.Get)) }

// checkConstants refuses a store whose constants are not those that were written.
func checkConstants(get func(key []byte) []byte) error {
	format, since := parseFormat(get(metaFormat)), parseFormat(get(metaSince))
	switch {
	case format == 0, len(get(metaID)) != 16, len(get(metaHashKey)) != 16, len(get(metaCreated)) != 8,
		format > 1 && (since == 0 || since > format):
		return fmt.Errorf("%w: bucket %q is incomplete", onefold.ErrDamaged, metaName)
	case format > 1 && !bytes.Equal(get(metaSum), constantsSum(get)):
		return fmt.Errorf("%w: bucket %q, key %q: %w", onefold.ErrDamaged, metaName, metaSum, sum.Err)
	}
	return nil
}

// identity reads who the store is. The constants have been checked.
func identity(get func(key []byte) []byte) (id string, key hashKey) {
	secret := get(metaHashKey)
	return hex.EncodeToString(get(metaID)), hashKey{binary.BigEndian.Uint64(secret), binary.BigEndian.Uint64(secret[8:])}
}

// putHead writes what changes with every transaction.
func putHead(meta *bolt.Bucket, h *head) error {
	if err := meta.Put(metaHead, sum.Append(metaHead, h.encode())); err != nil {
		return err
	}
	return meta.Put(metaTally, sum.Append(metaTally, h.tally.encode()))
}

// readHead reads what putHead wrote. A store of version 1 has no tally.
func readHead(get func(key []byte) []byte) (h head, err error) {
	stored, err := checked(metaHead, get(metaHead))
	if err == nil {
		h, err = parseHead(stored)
	}
	if err != nil {
		return h, unreadable(err, "bucket %q, key %q", metaName, metaHead)
	}
	if parseFormat(get(metaFormat)) == 1 {
		return h, nil
	}
	if stored, err = checked(metaTally, get(metaTally)); err == nil {
		h.tally, err = parseTally(stored)
	}
	if err != nil {
		return h, unreadable(err, "bucket %q, key %q", metaName, metaTally)
	}
	return h, nil
}

// putRegistry writes the list of the immutable files that count.
func putRegistry(meta *bolt.Bucket, list registry) error {
	return meta.Put(metaFiles, sum.Append(metaFiles, list.encode()))
}

// readRegistry reads what putRegistry wrote. A store of version 1 has none.
func readRegistry(get func(key []byte) []byte) (list registry, err error) {
	if parseFormat(get(metaFormat)) == 1 {
		return nil, nil
	}
	stored, err := checked(metaFiles, get(metaFiles))
	if err == nil {
		list, err = parseRegistry(stored)
	}
	if err != nil {
		return nil, unreadable(err, "bucket %q, key %q", metaName, metaFiles)
	}
	return list, nil
}
