package onefold

import "time"

// Outcome is how a key ended.
type Outcome uint8

const (
	// Succeeded says that the handler returned nil and its effects are in the entry.
	Succeeded Outcome = iota + 1
	// DeadLettered says that the message was given up; the entry's effects are its dead letter.
	DeadLettered
	// ParkedUnknown says that nobody knows what a run has done and the handler's policy forbids another; a person
	// decides. The entry's effects are its dead letter.
	ParkedUnknown
)

// String names the outcome.
func (o Outcome) String() string {
	switch o {
	case Succeeded:
		return "succeeded"
	case DeadLettered:
		return "dead-lettered"
	case ParkedUnknown:
		return "parked-unknown"
	}
	return "none"
}

// Entry is what one commit makes durable: all of it or nothing.
//
// An Entry with a zero Key and a zero Outcome stores no record: it holds Reads and Writes only and is how
// the framework keeps its own state, such as a consumer's floor.
type Entry struct {
	Key         Key
	Fingerprint Fingerprint
	Outcome     Outcome
	Result      []byte        // given to repeats of the key; nil if there is none
	Reads       []Read        // checked first, against the state left by earlier entries of the same write
	Joins       []Join        // then these run, in order, at most once per physical try
	Writes      []Write       // then these
	Effects     []Effect      // then these are appended
	Retain      time.Duration // life of the record from this commit on, and until its effects are settled; must be > 0 if there is a record
}

// Read names a version that must still be current when the entry is written; 0 means absent.
type Read struct {
	Table, Key string
	Version    uint64
}

// Write replaces or deletes a value. A write whose key is not in Reads is blind: it overwrites whatever
// another entry wrote in between.
type Write struct {
	Table, Key string
	Value      []byte
	Delete     bool
	Retain     time.Duration // 0: until deleted; else the value counts as absent after this time
}

// Value is small state. Version 0 means that the key is absent.
type Value struct {
	Data    []byte
	Version uint64
}

// Join is a store-specific write in the same commit, made by that store's package. It may run again if a
// neighbour in the same physical write fails; it must not call the Store.
type Join interface{ StoreKind() string }

// The kinds of effects.
const (
	KindMessage = "message" // a JetStream message; Target is its subject
	KindCall    = "call"    // a call of a Go function; Target is the name that the relay has registered it under
)

// Effect is one thing that leaves the system after the commit. Its ID is a pure function of Key (with
// Gen) and its index, or of Key.Scope and Timer, so that reruns name it alike.
type Effect struct {
	ID        string // set by Effects; never by a handler
	Kind      string // KindMessage, KindCall
	Conn      string // reserved for the name of a connection; must be empty
	Target    string // subject of a message, name of a function
	Header    Header // may hold HeaderID if an engine set it; the transport ID is always ID
	Payload   []byte
	OrderKey  string    // rows of one OrderKey leave one at a time, in commit order; empty: no order
	NotBefore time.Time // do not send earlier, nor later rows of its OrderKey; zero: at once
	Timer     string    // not empty: replaces the unsent effect of the same ID, which Effects derives from Key.Scope and Timer
	Cancel    bool      // with Timer: removes it instead
	Once      bool      // of a call: at most once, see Effects.CallOnce; a message must not set it
}

// Record is what stays of a finished key until its retention ends.
type Record struct {
	Key         Key
	Fingerprint Fingerprint
	Outcome     Outcome
	Result      []byte
	ResultKept  bool // false: there was a result and it is not kept (too large, erased)
	Token       uint64
	At          time.Time // wall clock of the commit
	Unsettled   int       // effects not yet sent or discarded, parked ones included
	Erased      bool      // only the mark is left; Scan then shows a zero Key; see Store.Erase
}
