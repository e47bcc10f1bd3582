// Package guard runs code that reads and writes files through bbolt and turns what cannot be right there into
// errors.
//
// It may import package onefold and the standard library.
package guard

import (
	"fmt"
	"runtime/debug"

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
// see its transact. If a page was damaged on such a disk after Open, the process may end there. Nothing that was
// answered is lost: the file on the disk is that of the last commit, and the next Open checks it.
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
