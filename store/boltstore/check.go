package boltstore

import (
	"fmt"

	"github.com/onefold-go/onefold"
)

// check refuses an entry that can never be stored here.
func (s *Store) check(c *onefold.Commit) error {
	if err := c.Check(s.info); err != nil {
		return err
	}
	return checkJoins(c.Entry.Joins)
}

// checkSettlement refuses a settlement that can never be recorded here. A handle of an earlier Open of
// the same store is one that is not held any more, which is decided when its turn comes.
func (s *Store) checkSettlement(one *onefold.Settlement) error {
	if err := one.Check(); err != nil {
		return err
	}
	t, ok := one.Row.Handle.(ticket)
	switch {
	case !ok:
		return fmt.Errorf("%w: Row.Handle is a %T; settle rows from Next, or parked ones from Scan", onefold.ErrInvalid, one.Row.Handle)
	case t.store.info.ID != s.info.ID:
		return fmt.Errorf("%w: Row.Handle: row %s belongs to store %s and this one is %s", onefold.ErrInvalid, one.Row.Effect.ID,
			t.store.info.ID, s.info.ID)
	}
	return nil
}
