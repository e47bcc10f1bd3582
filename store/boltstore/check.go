package boltstore

import (
	"fmt"

	"github.com/onefold-go/onefold"
)

// check refuses an entry that can never be stored here.
func (s *Store) check(c *onefold.Commit) error {
	e := &c.Entry
	record := e.Outcome != 0
	switch {
	case c.Claim != nil && c.Claim.Key != e.Key:
		return fmt.Errorf("%w: Entry.Key is %v and the claim is for %v", onefold.ErrInvalid, e.Key, c.Claim.Key)
	case record && e.Key.IsZero():
		return fmt.Errorf("%w: Entry.Key is zero and Outcome is %v; name the work", onefold.ErrInvalid, e.Outcome)
	case e.Outcome > onefold.ParkedUnknown:
		return fmt.Errorf("%w: Entry.Outcome is %d; use one of the constants", onefold.ErrInvalid, e.Outcome)
	case !record && !e.Key.IsZero():
		return fmt.Errorf("%w: Entry.Outcome is none for %v; set it", onefold.ErrInvalid, e.Key)
	case record && e.Retain <= 0:
		return fmt.Errorf("%w: Entry.Retain is %v; it must be positive", onefold.ErrInvalid, e.Retain)
	case !record && (len(e.Effects) > 0 || e.Result != nil):
		return fmt.Errorf("%w: Entry.Effects or Result without a Key; only Reads and Writes go without one", onefold.ErrInvalid)
	case len(e.Joins) > 0:
		return fmt.Errorf("%w: Entry.Joins: this version of the store takes none, and the first is for %q",
			onefold.ErrUnsupported, e.Joins[0].StoreKind())
	}
	if err := checkState(e); err != nil {
		return err
	}
	if n := entryBytes(e); n > s.options.MaxEntry {
		return fmt.Errorf("%w: %d bytes, Options.MaxEntry is %d; send large bodies by reference", onefold.ErrTooLarge, n, s.options.MaxEntry)
	}
	return nil
}

func checkState(e *onefold.Entry) error {
	for i := range e.Reads {
		if err := checkName("Entry.Reads", e.Reads[i].Table, e.Reads[i].Key); err != nil {
			return err
		}
	}
	for i := range e.Writes {
		w := &e.Writes[i]
		if err := checkName("Entry.Writes", w.Table, w.Key); err != nil {
			return err
		}
		if w.Retain < 0 {
			return fmt.Errorf("%w: Entry.Writes: Retain is %v; it must not be negative", onefold.ErrInvalid, w.Retain)
		}
	}
	return nil
}

// checkName refuses names of state that cannot be kept.
func checkName(field, table, key string) error {
	switch {
	case table == "" || key == "":
		return fmt.Errorf("%w: %s: table %q, key %q; both must be set", onefold.ErrInvalid, field, table, key)
	case len(table)+len(key) > onefold.MaxStateKeyBytes:
		return fmt.Errorf("%w: %s: table and key take %d bytes, the limit is %d; hash long keys",
			onefold.ErrInvalid, field, len(table)+len(key), onefold.MaxStateKeyBytes)
	}
	return nil
}

// entryBytes is what an entry counts against MaxEntry.
func entryBytes(e *onefold.Entry) int {
	n := len(e.Key.Scope) + len(e.Key.ID) + len(e.Result)
	for i := range e.Writes {
		w := &e.Writes[i]
		n += len(w.Table) + len(w.Key) + len(w.Value)
	}
	for i := range e.Effects {
		f := &e.Effects[i]
		n += len(f.ID) + len(f.Target) + len(f.Payload) + len(f.OrderKey) + len(f.Timer) + len(f.Conn)
		for name, values := range f.Header {
			for _, v := range values {
				n += len(name) + len(v)
			}
		}
	}
	return n
}
