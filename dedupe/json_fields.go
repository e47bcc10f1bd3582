package dedupe

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onefold-go/onefold"
)

// Fields is a choice of fields of JSON bodies, for fingerprints that leave out what changes with every try: a
// time of sending, a request ID. [OnlyFields] and [WithoutFields] make it. It is safe for concurrent use.
//
// Its methods compute what is stored and what is checked alike, and give each choice a version of its own:
// after a deploy that changes the choice, what was stored before is compared with nothing instead of being
// taken for another payload. Versions are a hash of the choice, FirstUserVersion or higher; see
// [Fields.Version].
type Fields struct {
	only    bool
	root    branch
	version uint8 // an offset to FirstUserVersion
}

// branch is what is chosen below one name.
type branch struct {
	whole bool // the value and all in it; nothing is chosen below
	below map[string]*branch
}

// OnlyFields chooses the fields that say what a message means; all others are ignored.
//
// A path is written like "/order/id": a slash before each name, "~1" for a slash in a name and "~0" for a
// tilde. The value at its end counts with all that is in it. An array on the way stands for each of its
// elements: "/lines/price" is the price of every line, in their order. A field that is absent differs from one
// that is null.
//
// A body that is not JSON, or that has none of the fields, is digested whole, so that two such bodies are never
// taken for one.
//
// Errors: [onefold.ErrInvalid], naming the path: there is none, it does not start with a slash, has an empty
// name or a wrong escape, is there twice, or lies in another one.
func OnlyFields(paths ...string) (*Fields, error) { return newFields(true, paths) }

// WithoutFields chooses all but the named fields. For paths, bodies that are not JSON and errors see
// [OnlyFields].
func WithoutFields(paths ...string) (*Fields, error) { return newFields(false, paths) }

func newFields(only bool, paths []string) (*Fields, error) {
	f := &Fields{only: only}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%w: fields: no path is given; name one, or use SubjectAndJSON for the whole body", onefold.ErrInvalid)
	}
	sorted := slices.Clone(paths)
	slices.Sort(sorted) // a path comes before those that lie in it, and the version does not depend on the order
	for _, path := range sorted {
		names, err := splitPath(path)
		if err == nil {
			err = f.root.add(names)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: fields: path %q %w", onefold.ErrInvalid, path, err)
		}
	}
	f.version = fieldsVersion(only, sorted)
	return f, nil
}

// userVersions is how many versions there are from FirstUserVersion on.
const userVersions = 255 - FirstUserVersion + 1

// fieldsVersion is a hash of a choice. It must stay what it is: stored fingerprints carry it.
func fieldsVersion(only bool, sorted []string) uint8 {
	b := fmt.Appendf(nil, "onefold/fields/1\x00%t\x00", only)
	for _, path := range sorted {
		b = appendText(b, path)
	}
	sum := sha256.Sum256(b)
	return uint8(binary.BigEndian.Uint32(sum[:]) % uint32(userVersions))
}

// splitPath returns the names of a path, or what is wrong with it.
func splitPath(path string) ([]string, error) {
	rest, found := strings.CutPrefix(path, "/")
	switch {
	case !found:
		return nil, errors.New("does not start with a slash; write \"/order/id\" for the member id of the member order")
	case !utf8.ValidString(path):
		return nil, errors.New("is no UTF-8")
	}
	names := strings.Split(rest, "/")
	for i, name := range names {
		if name == "" {
			return nil, errors.New("has an empty name; remove the extra slash")
		}
		if left := strings.NewReplacer("~0", "", "~1", "").Replace(name); strings.Contains(left, "~") {
			return nil, errors.New("has a tilde that escapes nothing; write ~0 for a tilde and ~1 for a slash in a name")
		}
		names[i] = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
	}
	return names, nil
}

// add grows the tree by one path. A path that covers others has been added before them.
func (b *branch) add(names []string) error {
	for i, name := range names {
		next := b.below[name]
		switch {
		case next == nil:
			if b.below == nil {
				b.below = make(map[string]*branch)
			}
			next = &branch{whole: i == len(names)-1}
			b.below[name] = next
		case next.whole:
			return errors.New("is covered by another path; leave one of them out")
		}
		b = next
	}
	return nil
}

// Version is the version of the fingerprints that SubjectAndJSON and JSONFingerprint make; those of JSONOnly
// have the next one. There are 192 versions: a changed choice has the version of the one before it in one case
// of 192, and what is still remembered from before is then taken for another payload. Who changes a choice
// compares the versions, and adds a path that no body has if they are equal.
func (f *Fields) Version() uint8 { return FirstUserVersion + f.version }

// SubjectAndJSON covers the subject and the chosen fields. It is a [Fingerprinter].
func (f *Fields) SubjectAndJSON(m *onefold.Message) onefold.Fingerprint {
	return f.JSONFingerprint(m.Subject, m.Data)
}

// JSONOnly covers the chosen fields alone, for messages that may be republished on another subject. It is a
// [Fingerprinter].
func (f *Fields) JSONOnly(m *onefold.Message) onefold.Fingerprint {
	return digestJSON(FirstUserVersion+(f.version+1)%userVersions, "", m.Data, f.choose)
}

// JSONFingerprint is [BodyFingerprint] of the chosen fields.
func (f *Fields) JSONFingerprint(name string, body []byte) onefold.Fingerprint {
	return digestJSON(f.Version(), name, body, f.choose)
}

// choose returns what is chosen of a body, or all of it where that would be nothing.
func (f *Fields) choose(body node) node {
	if !f.only {
		return f.root.drop(body)
	}
	if chosen := f.root.keep(body); chosen.kind != 0 {
		return chosen
	}
	return node{kind: kindUnchosen, items: []node{body}} // it must not look like a body of which all was chosen
}

// keep returns what of n is chosen; its kind is 0 if nothing is.
func (b *branch) keep(n node) node {
	if b.whole {
		return n
	}
	kept := node{kind: n.kind}
	found := false
	for _, m := range n.members {
		if next := b.below[m.name]; next != nil {
			if v := next.keep(m.value); v.kind != 0 {
				kept.members, found = append(kept.members, member{m.name, v}), true
			}
		}
	}
	for _, item := range n.items {
		v := b.keep(item)
		kept.items, found = append(kept.items, v), found || v.kind != 0
	}
	if !found {
		return node{}
	}
	return kept
}

// drop returns n without what is named.
func (b *branch) drop(n node) node {
	left := node{kind: n.kind, text: n.text}
	for _, m := range n.members {
		next := b.below[m.name]
		if next == nil {
			left.members = append(left.members, m)
		} else if !next.whole {
			left.members = append(left.members, member{m.name, next.drop(m.value)})
		}
	}
	for _, item := range n.items {
		left.items = append(left.items, b.drop(item))
	}
	return left
}
