package onefold

import (
	"encoding/hex"
	"fmt"
)

// Fingerprint is a versioned digest of what a message says. It guards against one ID with two payloads.
// The zero value means "not checked". Fingerprints of different Version never mismatch, because the
// store cannot compare them: a deploy that changes what is selected must not turn every redelivery into
// a mismatch.
type Fingerprint struct {
	Version uint8
	Sum     [16]byte
}

// Conflicts reports whether f and g say for certain that two messages differ.
func (f Fingerprint) Conflicts(g Fingerprint) bool {
	return f.Version != 0 && f.Version == g.Version && f.Sum != g.Sum
}

// String is the version and the digest in hex, or "none".
func (f Fingerprint) String() string {
	if f.Version == 0 {
		return "none"
	}
	return fmt.Sprintf("v%d:%s", f.Version, hex.EncodeToString(f.Sum[:]))
}
