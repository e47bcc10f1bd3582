package onefold

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The checks below are the argument rules of [Store], written once for its authors: every store applies
// them before it does anything else. What they accept costs no allocation. They look at arguments alone,
// so what depends on the store (a Handle it made, a claim it knows) stays with the store.

// Check reports why no store may grant r, or nil. The error wraps [ErrInvalid].
func (r Request) Check() error {
	switch {
	case r.Key.IsZero():
		return fmt.Errorf("%w: Request.Key is zero; name the work", ErrInvalid)
	case r.Lease <= 0:
		return fmt.Errorf("%w: Request.Lease is %v; it must be positive", ErrInvalid, r.Lease)
	case r.Holder == Holder{}:
		return fmt.Errorf("%w: Request.Holder is zero; draw Process at random and count Attempt", ErrInvalid)
	}
	return nil
}

// Check reports why the store described by i may not store c, or nil. Claim and Entry are looked at;
// Existing and Err are not. Tables that start with [ReservedTablePrefix] are allowed: the framework's
// own entries use them.
//
// Errors: [ErrInvalid], [ErrUnsupported] (a Join made for another Info.Kind), [ErrTooLarge] (Entry.Bytes
// exceeds Info.MaxEntry, if that is set).
func (c *Commit) Check(i Info) error {
	e := &c.Entry
	if c.Claim != nil && c.Claim.Key != e.Key {
		return fmt.Errorf("%w: Entry.Key is %v and the claim is for %v; commit under the claim of the key", ErrInvalid, e.Key, c.Claim.Key)
	}
	if err := e.checkRecord(); err != nil {
		return err
	}
	if err := e.checkJoins(i.Kind); err != nil {
		return err
	}
	if err := e.checkState(); err != nil {
		return err
	}
	for n := range e.Effects {
		if err := e.Effects[n].checkStored(); err != nil {
			return fmt.Errorf("Entry.Effects[%d]: %w", n, err)
		}
	}
	if n := e.Bytes(); i.MaxEntry > 0 && n > i.MaxEntry {
		return fmt.Errorf("%w: Entry: %d bytes, Info.MaxEntry is %d; send large bodies by reference", ErrTooLarge, n, i.MaxEntry)
	}
	return nil
}

// checkRecord compares the parts that say whether there is a record.
func (e *Entry) checkRecord() error {
	hasKey, hasOutcome := !e.Key.IsZero(), e.Outcome != 0
	switch {
	case e.Outcome > ParkedUnknown:
		return fmt.Errorf("%w: Entry.Outcome is %d; use one of the constants", ErrInvalid, uint8(e.Outcome))
	case hasOutcome && !hasKey:
		return fmt.Errorf("%w: Entry.Key is zero and Outcome is %v; name the work", ErrInvalid, e.Outcome)
	case hasKey && !hasOutcome:
		return fmt.Errorf("%w: Entry.Outcome is none for %v; set it", ErrInvalid, e.Key)
	case hasOutcome && e.Retain <= 0:
		return fmt.Errorf("%w: Entry.Retain is %v; it must be positive", ErrInvalid, e.Retain)
	case !hasKey && e.Result != nil:
		return fmt.Errorf("%w: Entry.Result has %d bytes and Key is zero; only Reads and Writes go without a Key", ErrInvalid, len(e.Result))
	case !hasKey && len(e.Effects)+len(e.Joins) > 0:
		return fmt.Errorf("%w: Entry has %d Effects, %d Joins and no Key; only Reads and Writes go without a Key",
			ErrInvalid, len(e.Effects), len(e.Joins))
	}
	return nil
}

// checkJoins refuses joins that were made for another kind of store.
func (e *Entry) checkJoins(kind string) error {
	for n, j := range e.Joins {
		if j == nil {
			return fmt.Errorf("%w: Entry.Joins[%d] is nil; leave it out", ErrInvalid, n)
		}
		if made := j.StoreKind(); made != kind {
			return fmt.Errorf("%w: Entry.Joins[%d] is for a %q store and this one is %q; use a join of its package",
				ErrUnsupported, n, made, kind)
		}
	}
	return nil
}

// checkState checks the names of state and the lives of values.
func (e *Entry) checkState() error {
	for n := range e.Reads {
		if err := e.Reads[n].Check(); err != nil {
			return fmt.Errorf("Entry.Reads[%d]: %w", n, err)
		}
	}
	for n := range e.Writes {
		w := &e.Writes[n]
		if err := (Read{Table: w.Table, Key: w.Key}).Check(); err != nil {
			return fmt.Errorf("Entry.Writes[%d]: %w", n, err)
		}
		if w.Retain < 0 {
			return fmt.Errorf("Entry.Writes[%d]: %w: Retain is %v; it must not be negative, 0 keeps the value until it is deleted",
				n, ErrInvalid, w.Retain)
		}
	}
	return nil
}

// Check reports why no store can keep state under these names, or nil: both must be set and together take
// at most [MaxStateKeyBytes]. It is the rule of Store.Read and of Entry.Writes, too. The error wraps
// [ErrInvalid].
func (r Read) Check() error {
	switch {
	case r.Table == "":
		return fmt.Errorf("%w: Table is empty; name one", ErrInvalid)
	case r.Key == "":
		return fmt.Errorf("%w: Key in table %q is empty; name the value", ErrInvalid, showID(r.Table))
	case len(r.Table)+len(r.Key) > MaxStateKeyBytes:
		return fmt.Errorf("%w: Key in table %q: table and key take %d bytes, the limit is %d; hash long keys",
			ErrInvalid, showID(r.Table), len(r.Table)+len(r.Key), MaxStateKeyBytes)
	}
	return nil
}

// checkStored refuses an effect that a store could not name, replace or hand to a relay. Whether it can
// leave is checked when it is buffered; see [Effects].
func (f *Effect) checkStored() error {
	switch {
	case f.ID == "":
		return fmt.Errorf("%w: ID is empty; derive it with Key.EffectID or Key.TimerID", ErrInvalid)
	case f.Cancel && f.Timer == "":
		return fmt.Errorf("%w: Cancel is set and Timer is empty; name the timer to cancel", ErrInvalid)
	case !f.Cancel && f.Kind == "":
		return fmt.Errorf("%w: Kind is empty; known kinds: %q, %q", ErrInvalid, KindMessage, KindCall)
	}
	return nil
}

// Check reports why no store may record s, or nil. The error wraps [ErrInvalid].
func (s *Settlement) Check() error {
	switch {
	case s.Row.Handle == nil:
		return fmt.Errorf("%w: Row.Handle is nil; settle rows from Feed.Next, or parked ones from Scan", ErrInvalid)
	case s.State < Sent || s.State > Discarded:
		return fmt.Errorf("%w: State is %d; use one of the constants", ErrInvalid, uint8(s.State))
	}
	return nil
}

// TruncateReason returns what stores keep of reason: at most [MaxReasonBytes] from its beginning, never
// cut within a character. A reason that is cut is copied, so that what is kept does not hold the rest.
func TruncateReason(reason string) string {
	if len(reason) <= MaxReasonBytes {
		return reason
	}
	end := MaxReasonBytes
	for end > MaxReasonBytes-utf8.UTFMax && !utf8.RuneStart(reason[end]) {
		end--
	}
	return strings.Clone(reason[:end])
}

// Bytes is what e counts against Info.MaxEntry: the lengths of all its strings and byte slices. Joins are
// opaque and count nothing.
func (e *Entry) Bytes() int {
	n := len(e.Key.Scope) + len(e.Key.ID) + len(e.Result)
	for i := range e.Reads {
		n += len(e.Reads[i].Table) + len(e.Reads[i].Key)
	}
	for i := range e.Writes {
		n += len(e.Writes[i].Table) + len(e.Writes[i].Key) + len(e.Writes[i].Value)
	}
	for i := range e.Effects {
		n += e.Effects[i].stringBytes()
	}
	return n
}

// stringBytes is the length of everything in f that has one.
func (f *Effect) stringBytes() int {
	n := len(f.ID) + len(f.Kind) + len(f.Conn) + len(f.Target) + len(f.Payload) + len(f.OrderKey) + len(f.Timer)
	for name, values := range f.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}
