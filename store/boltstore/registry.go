package boltstore

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/onefold-go/onefold/store/boltstore/internal/sealed"
	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// sealedDir is where the immutable files are, below the store's directory.
const sealedDir = "sealed"

// The endings of their names.
const (
	segmentEnding = ".seg"
	indexEnding   = ".idx"
)

// sealedFile is one immutable file that counts. A file counts from the commit that names it in the registry to
// the commit that does not any more; any other file of this kind is left over and is removed.
type sealedFile struct {
	head  sealed.Head
	bytes int64 // its length
	tier  uint8 // of an index: how often it was merged
}

// name is the file's name: what it covers, and what tells it from others that cover the same.
func (f *sealedFile) name() string {
	ending := segmentEnding
	if f.head.Kind == sealed.KindIndex {
		ending = indexEnding
	}
	return fmt.Sprintf("%012x-%012x-%s%s", f.head.First, f.head.End-1, hex.EncodeToString(f.head.File[:4]), ending)
}

// path is where the file is.
func (f *sealedFile) path(dir string) string { return filepath.Join(dir, sealedDir, f.name()) }

// sealedName reports whether a name in the directory of sealed files is one that this package gives.
func sealedName(name string) bool {
	name = strings.TrimSuffix(name, sealed.Aside)
	return strings.HasSuffix(name, segmentEnding) || strings.HasSuffix(name, indexEnding)
}

// registry is the list of the immutable files that count, oldest first, segments before indexes. It is one
// value, so that none can be lost from it unnoticed.
type registry []sealedFile

// encode returns the stored form, without a checksum.
func (r registry) encode() []byte {
	dst := make([]byte, 0, 1+9+len(r)*100+sum.Len)
	dst = binary.AppendUvarint(append(dst, valueV2), uint64(len(r)))
	for i := range r {
		dst = append(dst, r[i].tier)
		dst = binary.AppendUvarint(dst, uint64(r[i].bytes))
		dst = appendText(dst, r[i].head.Encode())
	}
	return dst
}

// parseRegistry reads what encode wrote.
func parseRegistry(b []byte) (registry, error) {
	r := reader{rest: b}
	r.version()
	list := make(registry, r.count())
	for i := range list {
		list[i].tier, list[i].bytes = r.u8(), int64(r.uvarint())
		stored := r.bytes()
		if r.bad {
			return nil, errFormat
		}
		var err error
		if list[i].head, err = sealed.ParseHead(stored); err != nil {
			return nil, err
		}
	}
	return list, r.done()
}
