package boltstore

import (
	"fmt"
	"runtime/debug"

	"github.com/onefold-go/onefold"
)

// panicked marks an error that a panic was turned into.
type panicked struct{ what, value string }

func (p *panicked) Error() string { return fmt.Sprintf("%s: %s", p.what, p.value) }
func (p *panicked) Unwrap() error { return onefold.ErrDamaged }

// guarded runs fn, which reads or writes the file through bbolt. bbolt panics when it meets a page that
// cannot be right, and the mapped file faults where the disk cannot be read; both become ErrDamaged.
//
// What no guard catches is a panic in a goroutine of bbolt itself. It starts one to find the free pages, in
// three places. At Open all pages have been checked before. Inside a Commit that fails it does so too: that is
// left to a read, write or sync error of the disk, since a full disk is found before Commit begins, and to joins
// that write more than there was room made sure of. And it does so when a Commit panics in a transaction with joins,
// see transact. If a page was damaged on such a disk after Open, the process may end there. Nothing that was answered is lost:
// the file on the disk is that of the last commit, and the next Open checks it.
func guarded(what string, fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{what, fmt.Sprint(p)}
		}
	}()
	return fn()
}
