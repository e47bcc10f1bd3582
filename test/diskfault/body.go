package diskfault

import (
	"errors"
	"maps"
	"os"
)

const (
	sector    = 512
	blockSize = 4096
)

// content of a file, block by block. A block is never changed once it is in the map, so that copies are
// cheap.
type body struct {
	blocks map[int64]*[blockSize]byte
	size   int64
}

func newBody() *body { return &body{blocks: map[int64]*[blockSize]byte{}} }

func (b *body) clone() *body { return &body{maps.Clone(b.blocks), b.size} }

func (b *body) write(data string, at int64) {
	for len(data) > 0 {
		n, off := at/blockSize, at%blockSize
		var block [blockSize]byte
		if old := b.blocks[n]; old != nil {
			block = *old
		}
		done := copy(block[off:], data)
		b.blocks[n] = &block
		data, at = data[done:], at+int64(done)
	}
	b.size = max(b.size, at)
}

func (b *body) truncate(size int64) {
	for n, block := range b.blocks {
		switch keep := size - n*blockSize; {
		case keep <= 0:
			delete(b.blocks, n)
		case keep < blockSize:
			cut := *block
			clear(cut[keep:])
			b.blocks[n] = &cut
		}
	}
	b.size = size
}

func (b *body) store(at string) (err error) {
	f, err := os.Create(at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(b.size); err != nil {
		return err
	}
	for n, block := range b.blocks {
		if end := min(b.size-n*blockSize, blockSize); end > 0 {
			if _, err := f.WriteAt(block[:end], n*blockSize); err != nil {
				return err
			}
		}
	}
	return nil
}
