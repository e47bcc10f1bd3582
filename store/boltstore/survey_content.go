package boltstore

import (
	"bytes"
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
			c.old = fmt.Errorf("bucket %q, key %x: a value of version 1 in a store that never had one", name, shown(key))
		}
		return
	case len(value) == 0 || value[0] != valueV2:
		err = errFormat
	default:
		_, err = checked(key, value)
	}
	if err != nil && c.wrong == nil {
		c.wrong = fmt.Errorf("bucket %q, key %x: %w", name, shown(key), err)
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
