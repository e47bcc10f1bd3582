package boltstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
)

// The layout of a bbolt file as far as it is needed to walk over it. bbolt writes its own numbers in the
// byte order of the machine.
const (
	pageHeadLen      = 16 // id 8, type 2, number of elements 2, further pages 4
	branchElementLen = 16 // key offset 4, key length 4, page 8
	leafElementLen   = 16 // flags 4, key offset 4, key length 4, value length 4
	bucketHeadLen    = 16 // page 8, sequence 8; an inline page follows if the first is 0

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
	bucketFlag   = 0x01

	bboltMagic   = 0xED0CDAED
	bboltVersion = 2
	metaLen      = 64
	noFreelist   = math.MaxUint64
	leastPage    = 1 << 10
	largestPage  = 1 << 24

	// maxDepth bounds branches within buckets within buckets; no file that bbolt writes comes near.
	maxDepth = 256
)

var native = binary.NativeEndian

// survey is what a walk over all pages of a bbolt file has found.
//
// The walk uses no code of bbolt: that follows page numbers without end and in goroutines of its own, so
// a page that points to its parent, or out of the file, could end the process. Here each page may be
// reached once, and nothing is read before its bounds are checked.
type survey struct {
	file    io.ReaderAt
	size    int64
	page    int64  // bytes of one page
	pages   uint64 // number of pages in use or free
	reached []uint64
	buffers [][]byte // one for each depth; keys of a page are looked at while those below it are walked
	shallow bool     // leaves below branches are not read
	used    pageCounts

	torn        bool    // one of the two meta pages is not whole
	firstBucket []byte  // name of the first bucket
	largest     int     // bytes of the largest value
	found       content // of our buckets
}

// pageCounts are the pages in use by kind: branches, leaves, and pages that continue one of these.
type pageCounts struct{ branch, leaf, more int }

// surveyFile walks over the file. Its errors say what is wrong with a page.
func surveyFile(file io.ReaderAt, size int64) (*survey, error) {
	s := &survey{file: file, size: size, found: newContent()}
	if err := s.walk(); err != nil {
		return nil, err
	}
	return s, nil
}

// surveyTree walks over what stands above the leaves of a file whose leaves are checked when they are read.
// Both meta pages must be whole.
func surveyTree(file io.ReaderAt, size int64) error {
	s := &survey{file: file, size: size, found: newContent(), shallow: true}
	err := s.walk()
	if err == nil && s.torn {
		err = errTorn
	}
	return err
}

func (s *survey) walk() error {
	meta, err := s.readMeta()
	if err != nil {
		return err
	}
	root, free := native.Uint64(meta[16:]), native.Uint64(meta[32:])
	s.pages = native.Uint64(meta[40:])
	if s.pages < 3 || s.pages > uint64(s.size)/uint64(s.page) {
		return fmt.Errorf("it has %d bytes and should have %d pages of %d", s.size, s.pages, s.page)
	}
	s.reached = make([]uint64, s.pages/64+1)
	_, _ = s.reach(0, 0), s.reach(1, 0)
	if free != noFreelist {
		if err := s.walkFreelist(free); err != nil {
			return fmt.Errorf("list of free pages: %w", err)
		}
	}
	return s.walkTree(root, span{}, nil, 0)
}

// readMeta finds the size of pages, and the newest of the two meta pages that is whole. If one is not, torn is
// set, and the file is refused when it is known whose it is: bbolt would make do with the other, but that may be
// the older one. The last commit, which was answered, would be gone and its keys granted again.
func (s *survey) readMeta() ([]byte, error) {
	first := s.metaAt(0)
	if first != nil {
		s.page = int64(native.Uint32(first[8:]))
	}
	for at := int64(leastPage); first == nil && at <= largestPage; at *= 2 {
		if m := s.metaAt(at); m != nil && int64(native.Uint32(m[8:])) == at {
			s.page = at
			break
		}
	}
	if s.page < leastPage || s.page > largestPage || s.page&(s.page-1) != 0 {
		return nil, errors.New("neither of its first pages is whole")
	}
	second := s.metaAt(s.page)
	s.torn = first == nil || second == nil
	switch {
	case first == nil:
		return second, nil
	case second == nil:
		return first, nil
	case native.Uint64(first[48:]) > native.Uint64(second[48:]):
		return first, nil
	}
	return second, nil
}

// metaAt returns the meta of the page at an offset, or nil if it is not whole.
func (s *survey) metaAt(at int64) []byte {
	b := make([]byte, pageHeadLen+metaLen)
	if _, err := s.file.ReadAt(b, at); err != nil {
		return nil
	}
	b = b[pageHeadLen:]
	sum := fnv.New64a()
	_, _ = sum.Write(b[:metaLen-8])
	if native.Uint32(b) != bboltMagic || native.Uint32(b[4:]) != bboltVersion || native.Uint64(b[metaLen-8:]) != sum.Sum64() {
		return nil
	}
	return b
}

// reach notes that a page and those that continue it are in use. Each may be so once.
func (s *survey) reach(id, further uint64) error {
	if id >= s.pages || further >= s.pages-id {
		return fmt.Errorf("page %d and %d further: the file has %d", id, further, s.pages)
	}
	for p := id; p <= id+further; p++ {
		if s.reached[p/64]&(1<<(p%64)) != 0 {
			return fmt.Errorf("page %d is used twice", p)
		}
		s.reached[p/64] |= 1 << (p % 64)
	}
	return nil
}

// read returns a whole page, header and continuations included.
func (s *survey) read(id uint64, depth int) ([]byte, error) {
	if id < 2 || id >= s.pages {
		return nil, fmt.Errorf("page %d: the file has %d", id, s.pages)
	}
	for depth >= len(s.buffers) {
		s.buffers = append(s.buffers, make([]byte, s.page))
	}
	b := s.buffers[depth]
	if _, err := s.file.ReadAt(b, int64(id)*s.page); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	if found := native.Uint64(b); found != id {
		return nil, fmt.Errorf("page %d says that it is page %d", id, found)
	}
	further := uint64(native.Uint32(b[12:]))
	if err := s.reach(id, further); err != nil {
		return nil, err
	}
	if further > 0 {
		all := make([]byte, int64(further+1)*s.page)
		copy(all, b)
		if _, err := s.file.ReadAt(all[s.page:], int64(id+1)*s.page); err != nil {
			return nil, fmt.Errorf("page %d: %w", id, err)
		}
		return all, nil
	}
	return b, nil
}

// walkFreelist checks the list of free pages. Stores keep none; bbolt writes one if others have opened the
// file with its default settings. That no page in use is listed shows when the tree is walked.
func (s *survey) walkFreelist(id uint64) error {
	b, err := s.read(id, 0)
	if err != nil {
		return err
	}
	if kind := native.Uint16(b[8:]); kind != freelistPage {
		return fmt.Errorf("page %d has type %#x", id, kind)
	}
	n, b := uint64(native.Uint16(b[10:])), b[pageHeadLen:]
	if n == math.MaxUint16 {
		n, b = native.Uint64(b), b[8:]
	}
	if n > uint64(len(b)/8) {
		return fmt.Errorf("page %d: %d entries do not fit", id, n)
	}
	for ; n > 0; n, b = n-1, b[8:] {
		if err := s.reach(native.Uint64(b), 0); err != nil {
			return err
		}
	}
	return nil
}

// span is where the keys of a page may lie: from low on, and before high unless that is nil.
type span struct{ low, high []byte }

func (s span) has(key []byte) bool {
	return bytes.Compare(key, s.low) >= 0 && (s.high == nil || bytes.Compare(key, s.high) < 0)
}

// walkTree walks over the page id of a bucket and all below it. path holds the names of the buckets.
func (s *survey) walkTree(id uint64, keys span, path [][]byte, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d: more than %d pages above it", id, maxDepth)
	}
	b, err := s.read(id, depth)
	if err != nil {
		return err
	}
	s.used.more += int(native.Uint32(b[12:]))
	switch kind := native.Uint16(b[8:]); kind {
	case branchPage:
		s.used.branch++
		err = s.walkBranch(b, keys, path, depth)
	case leafPage:
		s.used.leaf++
		err = s.walkLeaf(b, keys, path, depth)
	default:
		err = fmt.Errorf("type is %#x", kind)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

func (s *survey) walkBranch(b []byte, keys span, path [][]byte, depth int) error {
	n := int(native.Uint16(b[10:]))
	if n == 0 || pageHeadLen+n*branchElementLen > len(b) {
		return fmt.Errorf("%d elements", n)
	}
	key := func(i int) ([]byte, error) {
		at := pageHeadLen + i*branchElementLen
		return cut(b, n*branchElementLen, at, uint64(native.Uint32(b[at:])), uint64(native.Uint32(b[at+4:])))
	}
	low, err := key(0)
	if err != nil {
		return err
	}
	passLeaves := s.shallow && s.isLeaf(native.Uint64(b[pageHeadLen+8:]))
	for i := range n {
		// The first key of a branch may lag behind the keys below it, and above those of its parent.
		child := span{low: low, high: keys.high}
		if i+1 < n {
			if child.high, err = key(i + 1); err != nil {
				return err
			}
		}
		if len(low) == 0 || !keys.has(low) || child.high != nil && bytes.Compare(low, child.high) >= 0 {
			return fmt.Errorf("element %d is out of order", i)
		}
		page := native.Uint64(b[pageHeadLen+i*branchElementLen+8:])
		if passLeaves {
			err = s.reach(page, 0) // all pages below a branch are of one kind
		} else {
			err = s.walkTree(page, child, path, depth+1)
		}
		if err != nil {
			return err
		}
		low = child.high
	}
	return nil
}

// isLeaf reports whether a page is a leaf.
func (s *survey) isLeaf(id uint64) bool {
	var b [pageHeadLen]byte
	if id < 2 || id >= s.pages {
		return false // found out when it is read
	}
	_, err := s.file.ReadAt(b[:], int64(id)*s.page)
	return err == nil && native.Uint64(b[:]) == id && native.Uint16(b[8:]) == leafPage
}

func (s *survey) walkLeaf(b []byte, keys span, path [][]byte, depth int) error {
	n := int(native.Uint16(b[10:]))
	if pageHeadLen+n*leafElementLen > len(b) {
		return fmt.Errorf("%d elements", n)
	}
	var last []byte
	for i := range n {
		at := pageHeadLen + i*leafElementLen
		flags, offset := native.Uint32(b[at:]), uint64(native.Uint32(b[at+4:]))
		keyLen, valueLen := uint64(native.Uint32(b[at+8:])), uint64(native.Uint32(b[at+12:]))
		both, err := cut(b, n*leafElementLen, at, offset, keyLen+valueLen)
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		key, value := both[:keyLen:keyLen], both[keyLen:]
		if keyLen == 0 || !keys.has(key) || i > 0 && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("element %d is out of order", i)
		}
		last = key
		switch flags {
		case 0:
			s.largest = max(s.largest, len(value))
			s.found.note(path, key, value)
		case bucketFlag:
			if err := s.walkBucket(key, value, path, depth); err != nil {
				return fmt.Errorf("%s: %w", shownBucket(path, key), err)
			}
		default:
			return fmt.Errorf("element %d has flags %#x", i, flags)
		}
	}
	return nil
}

// walkBucket walks over a bucket in its own pages, or over the page that stands in its value.
func (s *survey) walkBucket(name, value []byte, path [][]byte, depth int) error {
	if len(value) < bucketHeadLen {
		return fmt.Errorf("%d bytes", len(value))
	}
	if len(path) == 0 {
		if s.firstBucket == nil {
			s.firstBucket = bytes.Clone(name)
		}
	}
	path = append(path[:len(path):len(path)], name)
	s.found.enter(path)
	if root := native.Uint64(value); root != 0 {
		return s.walkTree(root, span{}, path, depth+1)
	}
	inline := value[bucketHeadLen:]
	if len(inline) < pageHeadLen || native.Uint16(inline[8:]) != leafPage || native.Uint32(inline[12:]) != 0 {
		return errors.New("the page within it is none")
	}
	if depth >= maxDepth {
		return fmt.Errorf("more than %d above it", maxDepth)
	}
	return s.walkLeaf(inline, span{}, path, depth+1)
}

// cut returns the bytes of an element at offset from its own place, which lie behind all elements.
func cut(page []byte, elements, at int, offset, length uint64) ([]byte, error) {
	start := uint64(at) + offset
	if start < uint64(pageHeadLen+elements) || start+length > uint64(len(page)) {
		return nil, fmt.Errorf("%d bytes at %d are not within the page", length, start)
	}
	return page[start : start+length : start+length], nil
}
