package onefold

import "time"

// Observer is told what happens, as a struct of optional functions: set those you want. One value may
// serve several parts. The functions are called synchronously and from several goroutines; a slow one
// slows the work. They must not call back into the part.
//
// The first eight name the crash points of docs/guarantees.md, in the order of a message's life. Each delivery
// that is Received ends with exactly one of Acked, Duplicate, Retried, GivenBack, Dropped and Lost.
type Observer struct {
	Received  func(DeliveryEvent) // [received] a delivery has arrived
	Claimed   func(DeliveryEvent) // [claimed] the handler is about to run
	Handled   func(DeliveryEvent) // [handled] the handler has returned; Err and Class say how
	Committed func(DeliveryEvent) // [committed] the outcome is durable
	Acked     func(DeliveryEvent) // [acked] the ack is in the connection's buffer

	Fetched   func(RowEvent) // [fetched] the relay holds a row
	Published func(RowEvent) // [published] its stream has it (Duplicate if it had it already), or its function has returned
	Settled   func(RowEvent) // [settled] its end is durable

	Duplicate    func(DeliveryEvent) // acked without running: the key is done, or the message was redriven for another consumer
	Followed     func(DeliveryEvent) // another copy of a running key waits for its outcome
	Retried      func(DeliveryEvent) // failed, held elsewhere or stopped; comes again after Delay
	DeadLettered func(DeliveryEvent) // its dead letter is committed; acked when it is sent. Outcome tells a parked message from one that is given up
	GivenBack    func(DeliveryEvent) // not started in time or at shutdown; nak'ed
	Dropped      func(DeliveryEvent) // not answered: a copy of what this process holds, or no longer ours
	Lost         func(DeliveryEvent) // the claim ended while the handler ran; its result was refused
	Zombie       func(DeliveryEvent) // a handler ignores the end of its context: its message may run again beside it, its result will be refused
	ZombieEnded  func(DeliveryEvent) // such a handler has returned

	RowDelayed func(RowEvent) // could not be sent now; tried again after Delay
	RowParked  func(RowEvent) // given up for now; a person decides

	RowResumed   func(RowEvent) // a person lets a parked row go again; Reason says why
	RowDiscarded func(RowEvent) // a person has given a parked row up for good; Reason says why

	State func(StateEvent) // a part changed its state

	Warned func(WarnEvent) // a setting weakens the promise; see dedupe.Assess, and docs/guarantees.md for target streams

	Upkeep func(UpkeepEvent) // a store has done a piece of work in the background, or failed to
}

// Class sorts errors for metrics and alarms.
type Class string

// The classes.
const (
	ClassNone        Class = ""
	ClassHandler     Class = "handler"     // the handler returned an error
	ClassPanic       Class = "panic"       // it panicked or called runtime.Goexit
	ClassPermanent   Class = "permanent"   // no retry can help
	ClassTimeout     Class = "timeout"     // the run took longer than it may
	ClassCutShort    Class = "cut short"   // earlier runs ended with their process
	ClassConflict    Class = "conflict"    // state moved; the handler runs again
	ClassMissingID   Class = "missing id"  // the message has no ID
	ClassMismatch    Class = "mismatch"    // its ID was used with another payload
	ClassLost        Class = "lost"        // the claim ended
	ClassUnavailable Class = "unavailable" // store or server cannot be reached now
	ClassRefused     Class = "refused"     // the target refused a row
	ClassUnknown     Class = "unknown"     // no answer came; it may have happened
)

// DeliveryEvent tells of one delivery.
type DeliveryEvent struct {
	At       time.Time
	Stream   string
	Consumer string
	Subject  string
	Sequence uint64
	Key      Key // zero before it is known
	Attempt  int // of the handler; 0 if it has not run
	Token    uint64
	Took     time.Duration // Handled, Zombie, ZombieEnded: how long the handler has run
	Zombies  int           // Zombie, ZombieEnded: how many there are now in this call of Run
	Delay    time.Duration // Retried, GivenBack: until it may come again
	Outcome  Outcome       // Duplicate, Committed, DeadLettered: how the key ended
	Class    Class
	Err      error // for people; a panic is a *PanicError with its stack
}

// RowEvent tells of one outgoing row.
type RowEvent struct {
	At        time.Time
	Key       Key
	ID        string
	Kind      string
	Target    string
	Attempt   int
	Duplicate bool          // Published: the stream had this ID already
	Sequence  uint64        // Published: position in the stream
	Delay     time.Duration // RowDelayed
	Reason    string        // RowResumed, RowDiscarded
	Class     Class
	Err       error
}

// StateEvent tells that a part changed its state.
type StateEvent struct {
	At   time.Time
	Part string // "consumer ORDERS/billing", "relay"
	From string
	To   string // the State constants of package consumer; a relay: "running", "waiting", "stopped"
	Err  error  // why
}

// WarnEvent tells of a setting that weakens what is promised, or of something that the server has lost, once when
// a part starts or starts again; a relay, once for each stream that its rows arrive in.
type WarnEvent struct {
	At   time.Time
	Part string // as in StateEvent
	Text string // the setting, its value, what follows, and the remedy; or what is lost
}

// UpkeepEvent tells of a piece of work that a store has done in the background. What failed is tried again.
type UpkeepEvent struct {
	At    time.Time
	Store string // Info.ID
	// Work is what was done. Of boltstore: "seal", a full or old segment was written to a file of its own; "drop", its
	// records have left main.db; "merge", index files became one; "expire", files whose records are all over were
	// removed; "rewrite", a segment file was written anew without what was erased.
	Work    string
	Records int // of the files that were written or removed
	Bytes   int64
	Took    time.Duration
	Err     error
}
