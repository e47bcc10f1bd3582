package diskfault

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// choice decides what of that which is not certain is on the disk after power was lost.
type choice struct {
	name   string
	names  func(pending int) int // how many changes of names, from the oldest on
	change func() bool           // whether a change of a file is there at all
	sector func() bool           // whether each sector of a write that is there is
}

// image is what a disk may hold now.
func (d *disk) image(ch choice) map[string]*body {
	names := maps.Clone(d.durable)
	for _, n := range d.pending[:ch.names(len(d.pending))] {
		n.apply(names)
	}
	out := map[string]*body{}
	for p, node := range names {
		if node == nil {
			out[p] = nil
			continue
		}
		b := node.durable.clone()
		for _, w := range node.pending {
			if ch.change() {
				w.tear(b, ch.sector)
			}
		}
		out[p] = b
	}
	return out
}

// tear applies those sectors of a write that are there.
func (c *change) tear(b *body, there func() bool) {
	if c.size >= 0 {
		c.apply(b)
		return
	}
	for from := int64(0); from < int64(len(c.data)); {
		to := min((c.at+from)/sector*sector+sector-c.at, int64(len(c.data)))
		if there() {
			b.write(c.data[from:to], c.at+from)
		}
		from = to
	}
}

// store writes an image below a directory, with holes where there is nothing.
func store(image map[string]*body, root, dir string) error {
	for p, b := range image {
		at := filepath.Join(dir, strings.TrimPrefix(p, root))
		if !reachable(image, root, p) {
			continue
		}
		if b == nil {
			if err := os.MkdirAll(at, 0o700); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		if err := b.store(at); err != nil {
			return err
		}
	}
	return nil
}

// reachable reports whether all directories above a name are there.
func reachable(image map[string]*body, root, p string) bool {
	for p != root {
		p = path.Dir(p)
		if b, ok := image[p]; p != root && (!ok || b != nil) {
			return false
		}
	}
	return true
}

// scratch makes a directory in memory if the machine has such a place: images need not survive anything.
func scratch() (string, error) {
	if dir, err := os.MkdirTemp("/dev/shm", "onefold-power-"); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", "onefold-power-")
}
