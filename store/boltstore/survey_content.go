package boltstore

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/onefold-go/onefold"
)

// content is what a survey finds in the buckets of the store. Whether it is as it should be is decided at the
// end, when the format version is known: the values of a newer one are not damage.
type content struct {
	ours   bool              // the root bucket of the store is there
	meta   map[string][]byte // the values of meta
	counts tally
	names  [len(tally{})][]byte

	wrong error // the first value whose checksum is wrong, or that no version has written
	old   error // the first value of version 1
}

func newContent() content { return content{meta: map[string][]byte{}, names: counted()} }

// enter notes a bucket. path holds its name and those of the buckets that it is in.
func (c *content) enter(path [][]byte) {
	c.ours = c.ours || len(path) == 1 && bytes.Equal(path[0], rootName)
}

// note looks at one value.
func (c *content) note(path [][]byte, key, value []byte) {
	if len(path) < 2 || !bytes.Equal(path[0], rootName) {
		return
	}
	name := path[1]
	if bytes.Equal(name, metaName) {
		c.meta[string(key)] = bytes.Clone(value)
		if bytes.Equal(key, metaHead) || bytes.Equal(key, metaTally) || bytes.Equal(key, metaFiles) {
			c.look(name, key, value)
		}
		return
	}
	for i := range c.names {
		// Records stand in the pieces of the journal, one deeper than all else.
		if bytes.Equal(name, c.names[i]) && (len(path) > 2) == (i == countRecords) {
			c.counts[i]++
			c.look(name, key, value)
			return
		}
	}
}

// look checks the version and the checksum of a value.
func (c *content) look(name, key, value []byte) {
	bare := bytes.Equal(name, timersName) && len(value) == 8 // as version 1 had it
	var err error
	switch {
	case bare, len(value) > 0 && value[0] == valueV1:
		if c.old == nil {
			c.old = fmt.Errorf("bucket %q, %s: a value of version 1 in a store that never had one", name, shown(name, key))
		}
		return
	case len(value) == 0 || value[0] != valueV2:
		err = errFormat
	default:
		_, err = checked(key, value)
	}
	if err != nil && c.wrong == nil {
		c.wrong = fmt.Errorf("bucket %q, %s: %w", name, shown(name, key), err)
	}
}

// check refuses what is not as it was written. The format is one that this version reads.
func (c *content) check() error {
	get := func(key []byte) []byte { return c.meta[string(key)] }
	if c.wrong != nil {
		return c.wrong
	}
	if err := checkConstants(get); err != nil {
		return err
	}
	h, err := readHead(get)
	if err == nil {
		_, err = readRegistry(get)
	}
	if err != nil || parseFormat(get(metaFormat)) == 1 {
		return err
	}
	if c.old != nil && parseFormat(get(metaSince)) > 1 {
		return c.old
	}
	for i, want := range h.tally {
		if c.counts[i] != want {
			return fmt.Errorf("%w: bucket %q has %d entries and should have %d", onefold.ErrDamaged, c.names[i], c.counts[i], want)
		}
	}
	return nil
}

// shown says which entry of one of our buckets an error is about, without anything that users have stored: a position
// as it is, and of other keys only what tells them apart.
func shown(name, key []byte) string {
	for _, by := range [][]byte{segName, rowsName, parkedName, attentionName, erasedName} {
		if bytes.Equal(name, by) && len(key) == 8 {
			return fmt.Sprintf("key %x", key)
		}
	}
	sum := sha256.Sum256(key)
	return fmt.Sprintf("key of %d bytes with SHA-256 %x...", len(key), sum[:8])
}

// shownBucket says which bucket an error is about. Those that stand at the top are shown by name, and ours; what else is in
// the buckets of users is theirs.
func shownBucket(path [][]byte, name []byte) string {
	switch {
	case len(path) == 0, len(path) == 1 && bytes.Equal(path[0], rootName):
		return fmt.Sprintf("bucket %q", name[:min(len(name), 32)])
	case bytes.Equal(path[0], rootName):
		return "the bucket under " + shown(path[1], name)
	}
	return "the bucket under " + shown(nil, name)
}
