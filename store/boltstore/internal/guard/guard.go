// Package guard runs code that reads and writes files through bbolt and turns what cannot be right there into
// errors.
//
// It may import bbolt, package onefold and the standard library.
package guard

import (
	"fmt"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
)

// PanicError marks an error that a panic was turned into. It wraps onefold.ErrDamaged.
type PanicError struct{ what, value string }

// Error says what was done and what the panic said.
func (p *PanicError) Error() string { return fmt.Sprintf("%s: %s", p.what, p.value) }

// Unwrap returns onefold.ErrDamaged.
func (p *PanicError) Unwrap() error { return onefold.ErrDamaged }

// Run runs fn, which reads or writes a file through bbolt. bbolt panics when it meets a page that
// cannot be right, and the mapped file faults where the disk cannot be read; both become ErrDamaged.
//
// What no guard catches is a panic in a goroutine of bbolt itself. It starts one to find the free pages, in
// three places. At Open all pages have been checked before. Inside a Commit that fails it does so too: that is
// left to a read, write or sync error of the disk, since a full disk is found before Commit begins, and to joins
// that write more than there was room made sure of. And it does so when a Commit panics in a transaction with joins,
// see its transact. Neither does it catch a stack that overflows: bbolt follows pages by recursion, and where a disk has
// left an old page in the place of a new one, pages can lead in a circle. If a page was damaged on such a disk after
// Open, the process may end there. Nothing that was answered is lost: the file on the disk is that of the last commit,
// and the next Open checks it.
func Run(what string, fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = Damage(what, p)
		}
	}()
	return fn()
}

// Damage is the error for the value of a panic that has been recovered elsewhere.
func Damage(what string, value any) error { return &PanicError{what, fmt.Sprint(value)} }

// Update is bbolt's Update, guarded, for transactions that hold nothing but ours, with one difference: after a panic
// in Commit it gives bbolt's locks back, where bbolt would read the file again first, and, if that panics too, keep them:
// closing the file would then wait for ever. fn must not commit or roll back.
func Update(what string, db *bolt.DB, fn func(tx *bolt.Tx) error) error {
	return Run(what, func() error {
		tx, err := db.Begin(true)
		if err != nil {
			return err
		}
		// After Commit the transaction is closed and this does nothing; after an error or a panic it is not.
		defer func() { _ = Run("roll back", tx.Rollback) }()
		if err := fn(tx); err != nil {
			return err
		}
		return tx.Commit()
	})
}
