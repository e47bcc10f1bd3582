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
// cannot be right, and the mapped file faults where the disk cannot be read; both become ErrDamaged, so
// that a damaged store never ends the process.
func guarded(what string, fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{what, fmt.Sprint(p)}
		}
	}()
	return fn()
}
