package diskfault

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// resolve decides about the calls within which the process was killed: whether the kernel did them shows in
// the files, which nobody has changed since. A sync stays open: it promises nothing.
func (t *trace) resolve() error {
	var last []step
	for _, s := range t.steps {
		c := s.call
		if c.ended || s.end || c.failed || len(c.args) == 0 {
			continue
		}
		happened, known, err := c.happened()
		if err != nil {
			return err
		}
		if !known {
			continue
		}
		c.ended, c.failed = happened, !happened
		if happened {
			last = append(last, step{c, true})
		}
	}
	t.steps = append(t.steps, last...)
	return nil
}

// happened looks whether a call that never came back was done. known is false for calls that change nothing.
func (c *call) happened() (did, known bool, err error) {
	switch c.name {
	case "pwrite64":
		did, err = holds(c.file(0), c.text(1), c.number(3))
	case "ftruncate":
		did, err = hasSize(c.file(0), func(size int64) bool { return size == c.number(1) })
	case "fallocate":
		did, err = hasSize(c.file(0), func(size int64) bool { return size >= c.number(2)+c.number(3) })
	case "mkdirat":
		did = exists(c.text(1))
	case "unlinkat":
		did = !exists(c.text(1))
	case "renameat", "renameat2":
		did = !exists(c.text(1))
	default:
		return false, false, nil
	}
	return did, true, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func hasSize(path string, right func(int64) bool) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	return right(info.Size()), nil
}

// holds reports whether a file has data at a place.
func holds(path, data string, at int64) (same bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := make([]byte, len(data))
	n, err := f.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n == len(data) && string(b) == data, err
}
