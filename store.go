package onefold

import (
	"context"
	"iter"
	"time"
)

// Store makes the outcome of one piece of work durable in one step: the mark, the result, the state and
// the outgoing effects become visible together or not at all. Package store/storetest proves that an
// implementation holds what is written here.
//
// All methods may be called concurrently. No method keeps an argument after it returns, except as said
// for Commit; everything returned belongs to the caller. A store never retries on behalf of its caller,
// except for conflicts that its own protocol produces without a competitor. Each method names every
// error it may return. A cancelled context ends a wait with ctx.Err(); where something may already have
// been stored the error is ErrUnknown as well.
//
// Time: leases and retention are judged by the store's clock (Info.Expiry says which), never by a wall
// clock of the caller. Expiry is decided when a record is read; removing it is garbage collection. An
// unexpired record is never evicted, and a record does not expire while an effect of it is unsettled: a key
// that ran again would send beside what has not been sent yet.
type Store interface {
	// Info reports what this store is and what it can hold. It does no I/O and never fails.
	Info() Info

	// Begin asks for the right to run a key once. It is one atomic decision, never a read followed by
	// an insert, and looks at live claims and at stored records as of one instant.
	//
	//	Granted   the claim is exclusive for r.Lease from now unless renewed
	//	Busy      someone holds it; RetryAfter is in (0, the holder's lease]
	//	Done      a record is stored and unexpired; Record is set and durable
	//	Mismatch  a live claim or an unexpired record holds this key with another fingerprint; Record is
	//	          set if there is one. Checked before Busy and before Done. A released claim binds nothing.
	//
	// Durable on return: nothing, unless r.Durable is set, in which case the start of this attempt is
	// counted durably before Granted is returned (for handlers that must not be run blindly again).
	// After a lost reply the caller repeats Begin with the same r.Holder and gets its own claim back. Repeating it
	// with Durable counts the start of a claim that was granted without.
	//
	// Errors: ErrFull, ErrUnavailable, ErrDamaged, ErrClosed, ErrInvalid; with Durable also ErrUnknown (the
	// start may be counted: repeat with the same Holder).
	Begin(ctx context.Context, r Request) (Grant, error)

	// Renew extends the lease to lease from now. The Token does not change. Renew, Release and Commit
	// for one claim may be called from several goroutines; the store puts them in order. Renewing a
	// claim whose commit is under way is success and changes nothing: it cannot expire meanwhile.
	//
	// Errors: ErrLost (stop: cancel the handler, answer nothing), ErrUnavailable (the lease still ends
	// when it would have; a store that has found itself damaged says so, too), ErrClosed, ErrInvalid.
	Renew(ctx context.Context, c *Claim, lease time.Duration) error

	// Release gives the claim back without an outcome and records the failure. The record may become
	// durable later (with the next commit, at most Info.FailureLag); it never replaces an outcome and is
	// ignored if the claim is not current any more. Only after a nil error may the message be nak'ed.
	//
	// Errors: ErrLost, ErrBusy (its commit is under way), ErrUnavailable, ErrClosed, ErrInvalid.
	Release(ctx context.Context, c *Claim, f Failure) error

	// Commit makes entries durable, each for itself: one failing entry never fails another, and each
	// outcome is in Commit.Err. The order within the batch is the order of the effects in the journal.
	// The store may put several concurrent calls into one physical write. From the moment an entry is
	// accepted until its outcome is known the claim cannot expire or be taken over.
	//
	// The store keeps the entries until their outcome is known: after ErrUnknown the caller must not
	// change what they point to.
	//
	// Entry.Key must be the claim's, and a key needs an outcome (else ErrInvalid).
	//
	// An entry with a nil Claim is stored only if its key holds nothing: an equal stored entry (same
	// fingerprint) is success with Existing set.
	//
	// Committing the same claim and entry again is success with no second effect. That is how ErrUnknown
	// is resolved: the caller repeats until it gets another answer, and acks nothing before. After ErrUnknown
	// an answer that says nothing of the entry itself (ErrUnavailable, ErrFull, ErrDamaged, ErrClosed, the end
	// of ctx) leaves the first try unresolved.
	//
	// The returned error is the one that kept the whole batch from being tried (no entry was stored);
	// otherwise it is nil. Errors, in Commit.Err or returned:
	// ErrLost (another run owns or ended the key, nothing stored), ErrConflict (a version in Reads has
	// moved, nothing stored, claim still held: run the handler again), ErrRejected (a Join failed; wraps its
	// error; nothing stored, claim still held), ErrUnknown, ErrBusy and ErrMismatch (nil Claim only),
	// ErrTooLarge, ErrUnsupported, ErrFull, ErrUnavailable, ErrDamaged, ErrClosed, ErrInvalid.
	// After any error but ErrLost and ErrUnknown the claim is still held.
	Commit(ctx context.Context, batch []*Commit) error

	// Read returns one value of small state and the version to name in Entry.Reads. Absent is Version 0
	// and no error. A version is never used twice for one (table, key). The read is of the latest commit
	// that returned, from the process that can refuse a commit (never from a lagging replica).
	//
	// Errors: ErrUnavailable, ErrDamaged, ErrClosed, ErrInvalid.
	Read(ctx context.Context, table, key string) (Value, error)

	// Lookup returns the stored record of a key without claiming it. It is for people, tests and stored
	// results, not for deciding whether to run.
	//
	// Errors: ErrNotFound (absent or expired), ErrUnavailable, ErrDamaged, ErrClosed.
	Lookup(ctx context.Context, k Key) (Record, error)

	// Wait blocks until none of the effects of a stored key is unsettled and returns its record, with
	// Unsettled 0. It returns at once if that is already so. A parked effect is unsettled until a person
	// settles it. Waiting costs no polling.
	//
	// Errors: ErrNotFound, ErrUnavailable, ErrDamaged, ErrClosed.
	Wait(ctx context.Context, k Key) (Record, error)

	// Erase removes what a finished key stores of a person: the key's bytes, result, failures and unsent
	// effects. A mark remains that still dedupes the key, and still knows its fingerprint, until its retention
	// ends (Record.Erased). State that handlers wrote is theirs to delete. Erasing twice is success.
	//
	// Errors: ErrNotFound, ErrBusy (a claim is live), ErrUnknown (erase again), ErrFull, ErrUnavailable,
	// ErrDamaged, ErrClosed.
	Erase(ctx context.Context, k Key) error

	// Scan walks records, rows or one state table for operators, in no promised order, in short steps
	// that hold no lock or transaction between two yields. It sees everything that existed before the
	// call and was not removed during it. An error ends the sequence.
	//
	// Errors: ErrUnsupported, ErrInvalid, ErrUnavailable, ErrDamaged, ErrClosed.
	Scan(ctx context.Context, q Query) iter.Seq2[Item, error]

	// Feed opens the outgoing side for one relay. A row is held by at most one feed at a time. With
	// Info.OneFeed a second live feed gets ErrBusy until the first is closed or its lease ends. Next and
	// Settle renew the lease of the feed whose rows they name, and a blocked Next keeps it.
	//
	// Errors: ErrBusy, ErrUnavailable, ErrDamaged, ErrClosed, ErrInvalid.
	Feed(ctx context.Context, lease time.Duration) (Feed, error)

	// Settle records what became of rows, all in one step where the store can, each for itself where it
	// cannot. Rows come from Feed.Next, or from Scan if parked (a person resumes one with Delayed, gives it
	// up with Discarded; such a Row is good for one settlement). Settling twice is success; a final state never goes back. Tried must be durable on
	// return: the relay calls out only after it.
	//
	// Errors: ErrLost (the hold on some row had ended; it may be sent again by another feed; the other
	// rows are settled), ErrUnknown (settle again), ErrFull (nothing of the call is recorded; a call with Sent
	// and Discarded alone never gets it), ErrUnavailable, ErrDamaged, ErrClosed, ErrInvalid.
	Settle(ctx context.Context, s []Settlement) error

	// Stats returns counters and ages for metrics and health. Estimates are marked as such.
	//
	// Errors: ErrUnavailable, ErrClosed.
	Stats(ctx context.Context) (Stats, error)

	// Close refuses new work with ErrClosed, waits for accepted commits until ctx ends, and drops claims.
	// Closing twice is success; if ctx ended first, Close returns its error and may be called again.
	Close(ctx context.Context) error
}

// Info is constant between Open and Close.
type Info struct {
	Kind       string        // "bolt", "memory", ...; what a Join must match
	ID         string        // identity of the data, made when it was made
	Epoch      uint64        // grows with each Open of a one-process store; high bits of every Token
	Position   uint64        // highest journal position at Open, to notice a file restored from a copy
	Created    time.Time     // when the data was made: older duplicates cannot be known
	Clean      bool          // the store was closed cleanly before this Open, or is new
	OneProcess bool          // a second process cannot share it: one durable consumer, one process
	OneFeed    bool          // one relay at a time
	Ordered    bool          // Effect.OrderKey is honoured
	Timers     bool          // Effect.NotBefore and Effect.Timer are honoured
	Expiry     ExpiryClock   // who decides expiry
	Durable    bool          // a returned commit survives power loss of this machine
	MaxEntry   int           // bytes of one Entry, effects included
	FailureLag time.Duration // longest time until a Release is durable
}

// ExpiryClock says whose time decides leases and retention.
type ExpiryClock uint8

const (
	// ExpiryStore is the store's own clock, which counts only while the store is open.
	ExpiryStore ExpiryClock = iota
	// ExpiryServer is a server's clock, down time included.
	ExpiryServer
)

// Holder names one attempt to claim. Both parts together must be unique; a process draws Process at
// random and counts Attempt.
type Holder struct{ Process, Attempt uint64 }

// Request asks for a claim.
type Request struct {
	Key         Key
	Fingerprint Fingerprint
	Lease       time.Duration // > 0
	Holder      Holder        // not zero; an equal Holder gets its own claim back
	Durable     bool          // count the start durably before granting
}

// Verdict is the answer to Begin.
type Verdict uint8

// The verdicts; see [Store.Begin].
const (
	Granted Verdict = iota + 1
	Busy
	Done
	Mismatch
)

// String names the verdict.
func (v Verdict) String() string {
	switch v {
	case Granted:
		return "granted"
	case Busy:
		return "busy"
	case Done:
		return "done"
	case Mismatch:
		return "mismatch"
	}
	return "none"
}

// Grant is the answer to Begin; which fields are set depends on Verdict.
type Grant struct {
	Verdict    Verdict
	Claim      *Claim
	Record     *Record
	RetryAfter time.Duration
	History    History
	Held       Fingerprint // Mismatch: the one that holds the key
}

// Claim is an exclusive right to run a key. It is changed by its store only, which reads Handle.
type Claim struct {
	Key    Key
	Token  uint64        // grows with every acquisition of a key, across restarts too; stable over Renew
	Lease  time.Duration // length granted
	Handle any
}

// History is what is known of earlier attempts of an unfinished key, the one being granted not included.
// Starts counts durable starts (Request.Durable), and with the first of them the attempts that had failed before:
// Starts beyond Failures were cut short.
type History struct {
	Starts, Failures int
	First            time.Time
	LastReason       string
}

// Failure tells why a claim was given back.
type Failure struct {
	Reason  string // truncated by the store to MaxReasonBytes
	Counted bool   // false: shutdown, busy neighbour and the like use up no attempt, and take a durable start back
}

// MaxReasonBytes is how much of a reason stores keep.
const MaxReasonBytes = 1 << 10

// Commit is one entry on its way, and what became of it.
type Commit struct {
	Claim *Claim // nil: store only if the key holds nothing
	Entry Entry

	Existing *Record // set by the store: the entry was stored already
	Err      error   // set by the store: nil means durable
}

// Query selects what Scan walks.
type Query struct {
	What  What
	Table string // WhatState: which table
	Scope string // WhatRecords: only keys of this scope; empty: all
	After string // continue behind this Item.After
	Limit int    // 0: all
}

// What is a kind of thing that Scan walks.
type What string

// The kinds of things that Scan walks.
const (
	WhatRecords   What = "records"
	WhatWaiting   What = "waiting"   // rows not parked
	WhatParked    What = "parked"    // rows held for a person
	WhatState     What = "state"     // values of one table
	WhatAttention What = "attention" // dead letters, unknown outcomes and parked rows; outlives retention, ends with Erase
)

// Item is one thing found by Scan; a Query with its After continues behind it.
type Item struct {
	After  string
	Record *Record
	Row    *Row
	Reason string // rows: why it is delayed or parked
	Table  string
	Key    string
	Value  Value
}

// Stats are for metrics and health.
type Stats struct {
	Records, Claims, Waiting, Parked uint64
	Attention                        uint64        // what needs a person: dead letters, unknown outcomes and parked rows
	Exact                            bool          // the counters are exact
	Position                         uint64        // highest journal position now
	OldestWaiting                    time.Duration // age of the oldest row that is neither parked nor delayed
	LastFeed                         time.Duration // since any relay last asked, 0 while one waits for rows; < 0: never
	Bytes, FreeBytes                 int64         // size of the files, with what they were grown by in advance; pages in it that are free for reuse
	Err                              error         // why claims are refused now
}
