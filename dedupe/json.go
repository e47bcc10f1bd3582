package dedupe

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// This file reads a JSON body and writes it in a form that depends on what it says and not on how it is
// written. RFC 8785 has such a form, but it takes numbers for IEEE doubles: 9007199254740993 and
// 9007199254740992 become one, and two payments with them. Here a number is what is written. The form is
// never sent or stored, only hashed, so it needs to be injective and the same for ever, not to be JSON.

// maxJSONDepth bounds how deep a body may nest before it is digested as bytes.
const maxJSONDepth = 1000

// errNotCanonical says that a body has no form of its own: it is digested as the bytes that it is.
var errNotCanonical = errors.New("not JSON of one meaning")

// node is one JSON value.
type node struct {
	kind    byte // one of the kinds below; 0: nothing was selected here
	text    string
	items   []node
	members []member // by name
}

// member is one name of an object and its value.
type member struct {
	name  string
	value node
}

// The kinds are bytes of the hashed form.
const (
	kindNull   = 'n'
	kindTrue   = 't'
	kindFalse  = 'f'
	kindNumber = '0'
	kindString = '"'
	kindArray  = '['
	kindObject = '{'

	kindUnchosen = '*' // a whole body of which nothing was chosen
)

// parseJSON reads a whole body. It refuses what is not JSON and what readers of JSON take differently: a name
// given twice in one object, and text that is no Unicode.
func parseJSON(body []byte) (node, error) {
	if !json.Valid(body) {
		return node{}, errNotCanonical
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return parseValue(d, 0)
}

func parseValue(d *json.Decoder, depth int) (node, error) {
	token, err := d.Token()
	if err != nil || depth > maxJSONDepth {
		return node{}, errNotCanonical
	}
	switch v := token.(type) {
	case json.Delim:
		if v == kindArray {
			return parseArray(d, depth)
		}
		return parseObject(d, depth)
	case string:
		return node{kind: kindString, text: v}, checkText(v)
	case json.Number:
		return node{kind: kindNumber, text: v.String()}, nil
	case bool:
		if v {
			return node{kind: kindTrue}, nil
		}
		return node{kind: kindFalse}, nil
	}
	return node{kind: kindNull}, nil
}

func parseArray(d *json.Decoder, depth int) (node, error) {
	n := node{kind: kindArray}
	for d.More() {
		item, err := parseValue(d, depth+1)
		if err != nil {
			return node{}, err
		}
		n.items = append(n.items, item)
	}
	_, err := d.Token() // the closing bracket
	return n, err
}

func parseObject(d *json.Decoder, depth int) (node, error) {
	n := node{kind: kindObject}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return node{}, errNotCanonical
		}
		name, _ := token.(string)
		if err := checkText(name); err != nil {
			return node{}, err
		}
		value, err := parseValue(d, depth+1)
		if err != nil {
			return node{}, err
		}
		n.members = append(n.members, member{name, value})
	}
	slices.SortFunc(n.members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(n.members); i++ {
		if n.members[i].name == n.members[i-1].name {
			return node{}, errNotCanonical
		}
	}
	_, err := d.Token() // the closing brace
	return n, err
}

// checkText refuses text that the decoder may have mended: what is no Unicode becomes U+FFFD there, so that
// texts which differ would look alike.
func checkText(s string) error {
	if strings.ContainsRune(s, utf8.RuneError) {
		return errNotCanonical
	}
	return nil
}

// appendTo appends the hashed form of n: each part says its kind and its length.
func (n *node) appendTo(b []byte) []byte {
	b = append(b, n.kind)
	switch n.kind {
	case kindNumber, kindString:
		b = appendText(b, n.text)
	case kindArray, kindUnchosen:
		b = binary.AppendUvarint(b, uint64(len(n.items)))
		for i := range n.items {
			b = n.items[i].appendTo(b)
		}
	case kindObject:
		b = binary.AppendUvarint(b, uint64(len(n.members)))
		for i := range n.members {
			b = n.members[i].value.appendTo(appendText(b, n.members[i].name))
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
