package dedupe

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/onefold-go/onefold"
)

// The versions of the fingerprints made here. A version is never given another meaning: stored
// fingerprints of one version are compared for as long as records live.
const (
	VersionSubjectAndBody uint8 = 1
	VersionBodyOnly       uint8 = 2
	VersionSubjectAndJSON uint8 = 3
	VersionJSONOnly       uint8 = 4

	// FirstUserVersion is the lowest version that Selected accepts. Those of Fields are not lower either.
	FirstUserVersion uint8 = 64
)

// Fingerprinter computes what is stored with a key and what a later message of the same ID is checked
// against; the same function does both. It must be pure.
type Fingerprinter func(*onefold.Message) onefold.Fingerprint

// SubjectAndBody covers subject and body. It is the default.
func SubjectAndBody(m *onefold.Message) onefold.Fingerprint {
	return digest(VersionSubjectAndBody, m.Subject, m.Data)
}

// BodyOnly covers the body alone, for messages that may be republished on another subject.
func BodyOnly(m *onefold.Message) onefold.Fingerprint {
	return digest(VersionBodyOnly, "", m.Data)
}

// Off checks nothing: the first message of an ID wins whatever later ones say.
func Off(*onefold.Message) onefold.Fingerprint { return onefold.Fingerprint{} }

// Selected covers what f selects of a message, for instance the body without a timestamp. version must be
// at least FirstUserVersion; give a changed f another version, so that messages stored before the change
// are not taken for mismatches. f must be pure; its result is read only and not kept. Errors:
// [onefold.ErrInvalid].
func Selected(version uint8, f func(*onefold.Message) []byte) (Fingerprinter, error) {
	if version < FirstUserVersion {
		return nil, fmt.Errorf("%w: fingerprint version is %d; use %d to 255, lower ones belong to the framework",
			onefold.ErrInvalid, version, FirstUserVersion)
	}
	if f == nil {
		return nil, fmt.Errorf("%w: fingerprint version %d: the selecting function is nil", onefold.ErrInvalid, version)
	}
	return func(m *onefold.Message) onefold.Fingerprint { return digest(version, "", f(m)) }, nil
}

// BodyFingerprint is the default fingerprint of work that did not arrive as a message: name says what kind
// of work it is (a route, a command), body what it says.
func BodyFingerprint(name string, body []byte) onefold.Fingerprint {
	return digest(VersionSubjectAndBody, name, body)
}

// SubjectAndJSON covers subject and body, and reads the body as JSON: the order of fields, nested ones too,
// blanks, and how characters are escaped make no difference. Numbers count as they are written, with all
// their digits: 1 and 1.0 differ. The order of arrays counts.
//
// A body that is not JSON, or that readers of JSON would take differently (a name twice in one object, text
// that is no Unicode or has U+FFFD in it, more than 1,000 levels), is covered as the bytes that it is.
//
// Reading costs several times what SubjectAndBody costs, for every message.
func SubjectAndJSON(m *onefold.Message) onefold.Fingerprint {
	return digestJSON(VersionSubjectAndJSON, m.Subject, m.Data, whole)
}

// JSONOnly covers the body alone, read as JSON; see [SubjectAndJSON].
func JSONOnly(m *onefold.Message) onefold.Fingerprint {
	return digestJSON(VersionJSONOnly, "", m.Data, whole)
}

// JSONFingerprint is [BodyFingerprint] of a body that is read as JSON; see [SubjectAndJSON].
func JSONFingerprint(name string, body []byte) onefold.Fingerprint {
	return digestJSON(VersionSubjectAndJSON, name, body, whole)
}

// whole chooses all of a body.
func whole(body node) node { return body }

// The first byte of what digestJSON covers, so that bytes are never taken for the form of a JSON body.
const (
	coversJSON  = 'J'
	coversBytes = 'B'
)

// digestJSON covers what choose returns of a body that is JSON, and the bytes of any other.
func digestJSON(version uint8, name string, body []byte, choose func(node) node) onefold.Fingerprint {
	n, err := parseJSON(body)
	if err != nil {
		return digest(version, name, append([]byte{coversBytes}, body...))
	}
	chosen := choose(n)
	return digest(version, name, chosen.appendTo([]byte{coversJSON}))
}

// digestDomain separates these digests from all others in the framework.
const digestDomain = "onefold/fingerprint/1\x00"

// digest is the first half of SHA-256 over length-prefixed parts, so that bytes cannot move from one part
// to the next unnoticed. Small inputs are hashed from the stack: this runs for every message.
func digest(version uint8, name string, body []byte) onefold.Fingerprint {
	var stack [1024]byte
	b := append(stack[:0], digestDomain...)
	b = append(b, version)
	b = binary.AppendUvarint(b, uint64(len(name)))
	b = append(b, name...)
	b = binary.AppendUvarint(b, uint64(len(body)))
	f := onefold.Fingerprint{Version: version}
	if len(b)+len(body) <= len(stack) {
		sum := sha256.Sum256(append(b, body...))
		copy(f.Sum[:], sum[:])
		return f
	}
	h := sha256.New()
	h.Write(b)
	h.Write(body)
	var sum [sha256.Size]byte
	copy(f.Sum[:], h.Sum(sum[:0]))
	return f
}
