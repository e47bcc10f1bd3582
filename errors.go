package onefold

import (
	"errors"
	"fmt"
	"time"
)

// The errors of the store contract. Match them with errors.Is: stores wrap them with the cause.
var (
	ErrLost        = errors.New("onefold: claim or lease is not current")
	ErrUnknown     = errors.New("onefold: outcome not known")
	ErrConflict    = errors.New("onefold: state has moved")
	ErrRejected    = errors.New("onefold: joined write failed")
	ErrBusy        = errors.New("onefold: held by another")
	ErrMismatch    = errors.New("onefold: key stored with another fingerprint")
	ErrTooLarge    = errors.New("onefold: entry too large for this store")
	ErrFull        = errors.New("onefold: store is full")
	ErrUnavailable = errors.New("onefold: store not reachable, nothing done")
	ErrDamaged     = errors.New("onefold: store damaged")
	ErrClosed      = errors.New("onefold: store closed")
	ErrUnsupported = errors.New("onefold: not supported by this store")
	ErrInvalid     = errors.New("onefold: invalid argument")
	ErrNotFound    = errors.New("onefold: not found")
)

// The errors of opening a store.
var (
	ErrInUse       = errors.New("onefold: store open in another process")
	ErrNewerFormat = errors.New("onefold: store written by a newer onefold")
	ErrNotStore    = errors.New("onefold: not a onefold store")
)

// permanentError marks an error that no retry can mend.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent says that running the handler again cannot help: the message becomes a dead letter at once,
// with err as its reason. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err or something it wraps was marked by [Permanent].
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// retryAfterError carries a delay chosen by the handler.
type retryAfterError struct {
	err   error
	delay time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// RetryAfter asks for the next attempt no sooner than d from now, instead of the usual growing delay.
// The attempt counts. RetryAfter(d, nil) is nil. A negative d counts as 0.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, max(d, 0)}
}

// RetryDelay returns the delay of the outermost [RetryAfter] in err, and whether there is one.
func RetryDelay(err error) (time.Duration, bool) {
	var r *retryAfterError
	if errors.As(err, &r) {
		return r.delay, true
	}
	return 0, false
}

// ErrGoexit reports that a handler ended its goroutine by runtime.Goexit, as t.FailNow does.
var ErrGoexit = errors.New("handler called runtime.Goexit")

// MaxStackBytes is how much of a stack a PanicError keeps.
const MaxStackBytes = 8 << 10

// PanicError is the panic of a handler as an error. If the panic value is an error, it is unwrapped.
type PanicError struct {
	Value any    // what panic was called with
	Stack []byte // of the panicking goroutine, at most MaxStackBytes, cut at its outer end
}

// Error names the panic value. The stack is not part of it.
func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.Value) }

// Unwrap returns the panic value if it is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
