package diskfault

import (
	"fmt"
	"path"
	"strings"
)

// change is one thing that was done to a file and may not be on the disk yet.
type change struct {
	data string
	at   int64
	size int64 // >= 0: the file gets this size
	grow bool  // only if it is smaller
	done bool  // the call has come back; a sync that begins now takes it along
}

func (c *change) apply(b *body) {
	switch {
	case c.size < 0:
		b.write(c.data, c.at)
	case !c.grow || b.size < c.size:
		b.truncate(c.size)
	}
}

// inode is a file: what is on the disk for certain, and what may be.
type inode struct {
	durable *body
	pending []*change
}

// naming is a change of a directory. from is empty for a new name, to is empty for one that goes.
type naming struct {
	from, to string
	node     *inode // nil: a directory
	synced   map[string]bool
}

// dirs are the directories that have to be synced for it to be durable.
func (n *naming) dirs() []string {
	var list []string
	for _, p := range []string{n.from, n.to} {
		if p != "" {
			list = append(list, path.Dir(p))
		}
	}
	return list
}

func (n *naming) apply(names map[string]*inode) {
	if n.from != "" {
		delete(names, n.from)
	}
	if n.to != "" {
		names[n.to] = n.node
	}
}

// disk is a model of a file system below one directory. A write is on the disk for certain when a sync of
// its file that began after it has come back; a name, when its directory was synced. Until then each may
// be there or not, in any order and in part.
type disk struct {
	root    string
	live    map[string]*inode // as the process sees it
	durable map[string]*inode // names that are on the disk for certain
	pending []*naming

	// keepFailed says what became of writes whose sync failed: the kernel forgets that they are not on
	// the disk. It is asked for each.
	keepFailed func() bool

	began map[*call][]*change // of syncs under way
	named map[*call][]*naming
	wrote map[*call]*change
	at    map[string]int64 // how far each descriptor has written
}

func newDisk(root string, keepFailed func() bool) *disk {
	return &disk{
		root: root, live: map[string]*inode{}, durable: map[string]*inode{}, keepFailed: keepFailed,
		began: map[*call][]*change{}, named: map[*call][]*naming{}, wrote: map[*call]*change{}, at: map[string]int64{},
	}
}

// unlinked is how strace marks the path of an open file that has lost its name.
const unlinked = " (deleted)"

// ours reports whether a path belongs to the model.
func (d *disk) ours(p string) bool { return p == d.root || strings.HasPrefix(p, d.root+"/") }

// take follows one step of a trace. An error says that the model does not know what was done.
func (d *disk) take(s step) error {
	c := s.call
	switch c.name {
	case "openat", "open":
		if s.end && c.did() {
			return d.opened(c)
		}
	case "pwrite64", "write", "ftruncate", "fallocate":
		if len(c.args) == 0 || !d.ours(c.file(0)) {
			return nil
		}
		return d.changed(c, s.end)
	case "fsync", "fdatasync":
		if len(c.args) > 0 {
			d.sync(c, s.end)
		}
	case "sync_file_range": // makes nothing durable
	case "mkdir", "mkdirat", "unlink", "unlinkat", "rename", "renameat", "renameat2":
		if s.end && c.did() && c.ended {
			d.rename(c)
		}
	case "mmap":
		if s.end && len(c.args) > 4 && strings.Contains(c.args[2], "PROT_WRITE") && strings.Contains(c.args[3], "MAP_SHARED") && d.ours(c.file(4)) {
			return fmt.Errorf("%s is mapped for writing, which the model does not know", c.file(4))
		}
	default:
		for i := range c.args {
			if p := c.file(i); p != "" && d.ours(p) {
				return fmt.Errorf("the model does not know %s of %s", c.name, p)
			}
		}
	}
	return nil
}

// opened makes a file that was not there, and empties one that is opened to be written anew.
func (d *disk) opened(c *call) error {
	p := c.opened()
	flags := strings.Join(c.args, " ")
	number, _, _ := strings.Cut(c.result, "<")
	d.at[number] = 0
	switch {
	case !d.ours(p) || strings.Contains(flags, "O_RDONLY"):
		return nil
	case strings.Contains(flags, "O_APPEND"):
		return fmt.Errorf("%s is opened to be appended to, which the model does not know", p)
	}
	node := d.live[p]
	if node == nil {
		node = &inode{durable: newBody()}
		d.live[p] = node
		d.pending = append(d.pending, &naming{to: p, node: node, synced: map[string]bool{}})
		return nil
	}
	if strings.Contains(flags, "O_TRUNC") {
		node.pending = append(node.pending, &change{size: 0, done: true})
	}
	return nil
}

// changed notes a write. It may be on the disk as soon as it has begun.
func (d *disk) changed(c *call, end bool) error {
	if end {
		if w := d.wrote[c]; w != nil && c.ended {
			w.done = true
		}
		return nil
	}
	if !c.did() {
		return nil
	}
	node := d.live[c.file(0)]
	if node == nil && strings.HasSuffix(c.file(0), unlinked) {
		return nil // the file is given back in steps
	}
	if node == nil {
		return fmt.Errorf("%s of %s, which has no name", c.name, c.file(0))
	}
	w := &change{size: -1}
	switch c.name {
	case "pwrite64":
		w.data, w.at = c.text(1), c.number(3)
	case "write":
		w.data, w.at = c.text(1), d.at[c.descriptor(0)]
		d.at[c.descriptor(0)] += int64(len(w.data))
	case "ftruncate":
		w.size = c.number(1)
	case "fallocate":
		if c.number(1) != 0 {
			return fmt.Errorf("fallocate of %s with mode %s", c.file(0), c.args[1])
		}
		w.size, w.grow = c.number(2)+c.number(3), true
	}
	if w.size < 0 {
		if want := c.number(2); int64(len(w.data)) != want {
			return fmt.Errorf("%s of %s has %d of %d bytes: strace cuts them", c.name, c.file(0), len(w.data), want)
		}
	}
	node.pending = append(node.pending, w)
	d.wrote[c] = w
	return nil
}

// sync notes at its beginning what it takes along, and at its end that this is on the disk.
func (d *disk) sync(c *call, end bool) {
	p := c.file(0)
	if !end {
		if node := d.live[p]; node != nil {
			for _, w := range node.pending {
				if w.done {
					d.began[c] = append(d.began[c], w)
				}
			}
		}
		for _, n := range d.pending {
			for _, dir := range n.dirs() {
				if dir == p {
					d.named[c] = append(d.named[c], n)
				}
			}
		}
		return
	}
	if !c.ended {
		return
	}
	if node := d.live[p]; node != nil {
		d.settle(node, d.began[c], c.did())
	}
	if c.did() {
		for _, n := range d.named[c] {
			n.synced[p] = true
		}
		d.settleNames()
	}
}

// settle makes writes durable; those of a failed sync by chance, and the others of them never.
func (d *disk) settle(node *inode, writes []*change, did bool) {
	if len(writes) == 0 {
		return
	}
	taken := map[*change]bool{}
	for _, w := range writes {
		taken[w] = true
	}
	var left []*change
	for _, w := range node.pending {
		switch {
		case !taken[w]:
			left = append(left, w)
		case did || d.keepFailed():
			w.apply(node.durable)
		}
	}
	node.pending = left
}

// settleNames makes names durable whose directories were synced, in order.
func (d *disk) settleNames() {
	var left []*naming
	for _, n := range d.pending {
		ready := true
		for _, dir := range n.dirs() {
			ready = ready && n.synced[dir]
		}
		if !ready {
			left = append(left, n)
			continue
		}
		n.apply(d.durable)
	}
	d.pending = left
}

// rename follows the calls that change names.
func (d *disk) rename(c *call) {
	n := &naming{synced: map[string]bool{}}
	switch c.name {
	case "mkdir":
		n.to = c.text(0)
	case "mkdirat":
		n.to = c.text(1)
	case "unlink":
		n.from = c.text(0)
	case "unlinkat":
		n.from = c.text(1)
	case "rename":
		n.from, n.to = c.text(0), c.text(1)
	default:
		n.from, n.to = c.text(1), c.text(3)
	}
	if !d.ours(n.from) && !d.ours(n.to) {
		return
	}
	n.node = d.live[n.from]
	n.apply(d.live)
	d.pending = append(d.pending, n)
}
