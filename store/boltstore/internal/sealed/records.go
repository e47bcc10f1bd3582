package sealed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

// blockBytes is how large a block of records grows: four fill a page.
const blockBytes = (pageSize-16)/blocksPerPage - 16 - 8 - sum.Len - 16

// A block of records, under the first position it covers:
//
//	1 | first position that it does not cover 8 | records | checksum 4
//	record:  distance from the position before it uvarint | length uvarint | bytes

// RecordsWriter writes a segment file.
type RecordsWriter struct {
	w     *writer
	head  Head
	first uint64 // position that the block covers first
	last  uint64 // position of the last record added
	block []byte // without its first bytes
}

// CreateRecords begins a segment file for the range of h, which lacks Records.
func CreateRecords(path string, h Head) (*RecordsWriter, error) {
	w, err := create(path)
	if err != nil {
		return nil, err
	}
	h.Kind, h.Records = KindRecords, 0
	return &RecordsWriter{w: w, head: h, first: h.First, last: h.First}, nil
}

// Add adds a record. Positions grow. The record is copied.
func (w *RecordsWriter) Add(position uint64, record []byte) error {
	if !w.head.Covers(position) || position < w.last || position == w.last && w.head.Records > 0 {
		return fmt.Errorf("position %d after %d in a segment of %d to %d", position, w.last, w.head.First, w.head.End-1)
	}
	if len(w.block) > 0 && len(w.block)+len(record)+2*binary.MaxVarintLen32 > blockBytes {
		if err := w.flush(position); err != nil {
			return err
		}
	}
	w.block = binary.AppendUvarint(w.block, position-max(w.last, w.first))
	w.block = binary.AppendUvarint(w.block, uint64(len(record)))
	w.block = append(w.block, record...)
	w.last = position
	w.head.Records++
	return nil
}

// flush writes the block; the next one begins at end.
func (w *RecordsWriter) flush(end uint64) error {
	value := make([]byte, 0, 9+len(w.block)+sum.Len)
	value = binary.BigEndian.AppendUint64(append(value, headV1), end)
	value = append(value, w.block...)
	err := w.w.put(blockBucket, binary.BigEndian.AppendUint64(nil, w.first), value)
	w.block, w.first = w.block[:0], end
	return err
}

// SetLife notes when the last of the records expires by store clock, and when the oldest was written.
func (w *RecordsWriter) SetLife(expires time.Duration, written int64) {
	w.head.Expires, w.head.Written = expires, written
}

// Finish makes the file complete and durable under its name; the directory is the caller's to sync. It
// returns what the file is and its size.
func (w *RecordsWriter) Finish() (Head, int64, error) {
	if err := w.flush(w.head.End); err != nil {
		w.w.abort()
		return Head{}, 0, err
	}
	size, err := w.w.finish(&w.head)
	return w.head, size, err
}

// Abort gives the file up.
func (w *RecordsWriter) Abort() { w.w.abort() }

// Records is an open segment file.
type Records struct{ *file }

// OpenRecords opens a segment file; admit judges its pages before they are used. Errors: ErrDamaged, and
// fs.ErrNotExist.
func OpenRecords(path string, admit func(*os.File) error) (*Records, error) {
	f, err := openFile(path, admit)
	if err != nil {
		return nil, err
	}
	if f.head.Kind != KindRecords {
		return nil, errors.Join(f.damaged(fmt.Errorf("it is an %v", f.head.Kind)), f.Close())
	}
	return &Records{f}, nil
}

// Get returns a copy of the record at a position, or nil if there is none. Errors: ErrDamaged.
func (f *Records) Get(position uint64) (record []byte, err error) {
	err = f.read(func(r *reader) error {
		b, err := r.blockOf(position, f.head.First)
		if err != nil {
			return err
		}
		for b.next() && b.position < position {
			continue
		}
		if b.err == nil && b.found && b.position == position {
			record = append([]byte{}, b.record...)
		}
		return b.err
	})
	return record, err
}

// blockOf finds the block that covers a position.
func (r *reader) blockOf(position, least uint64) (*block, error) {
	want := binary.BigEndian.AppendUint64(nil, position)
	c := r.blocks.Cursor()
	key, value := c.Seek(want)
	if key == nil || string(key) != string(want) {
		if key == nil {
			key, value = c.Last()
		} else {
			key, value = c.Prev()
		}
	}
	if key == nil {
		return nil, fmt.Errorf("the block of position %d is missing", position)
	}
	b, err := parseBlock(key, value)
	if err != nil {
		return nil, err
	}
	if position < b.first || position >= b.end || b.first < least {
		return nil, fmt.Errorf("the block of position %d is missing", position)
	}
	return b, nil
}

// block is a block of records, and where its reading stands.
type block struct {
	first, end uint64
	rest       []byte

	found    bool // position and record are set
	position uint64
	record   []byte
	err      error
}

func parseBlock(key, stored []byte) (*block, error) {
	value, err := sum.Cut(key, stored)
	if err != nil {
		return nil, fmt.Errorf("block %x: %w", key, err)
	}
	if len(key) != 8 || len(value) < 9 || value[0] != headV1 {
		return nil, fmt.Errorf("block %x: %w", key, errFormat)
	}
	b := &block{first: binary.BigEndian.Uint64(key), end: binary.BigEndian.Uint64(value[1:]), rest: value[9:]}
	b.position = b.first
	return b, nil
}

// next reads one record.
func (b *block) next() bool {
	if len(b.rest) == 0 || b.err != nil {
		b.found = false
		return false
	}
	step, n := binary.Uvarint(b.rest)
	length, m := uint64(0), 0
	if n > 0 {
		length, m = binary.Uvarint(b.rest[n:])
	}
	if n <= 0 || m <= 0 || length > uint64(len(b.rest)-n-m) || step > b.end-b.position {
		b.err = fmt.Errorf("block of position %d: %w", b.first, errFormat)
		b.found = false
		return false
	}
	b.position += step
	b.record = b.rest[n+m : uint64(n+m)+length]
	b.rest = b.rest[uint64(n+m)+length:]
	b.found = true
	return true
}

// From visits the records of one block: that which holds the first record at or behind position. visit copies
// what it keeps. It returns the position to go on with, which is the end of the segment when all is seen.
func (f *Records) From(position uint64, visit func(position uint64, record []byte) error) (next uint64, err error) {
	if position >= f.head.End {
		return f.head.End, nil
	}
	var visited error
	err = f.read(func(r *reader) error {
		b, err := r.blockOf(max(position, f.head.First), f.head.First)
		if err != nil {
			return err
		}
		for visited == nil && b.next() {
			if b.position >= position {
				visited = visit(b.position, b.record)
			}
		}
		next = b.end
		return b.err
	})
	if err == nil {
		err = visited // says nothing of this file
	}
	return next, err
}
