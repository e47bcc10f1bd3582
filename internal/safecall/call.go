package safecall

import (
	"errors"
	"fmt"
	"runtime"
)

// ErrGoexit reports that a function ended its goroutine by runtime.Goexit, as t.FailNow does.
var ErrGoexit = errors.New("handler called runtime.Goexit")

// MaxStackBytes is how much of a stack a PanicError keeps.
const MaxStackBytes = 8 << 10

// PanicError is a panic as an error. If the panic value is an error, it is unwrapped.
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

// Call is one call and how it ended. The zero value has not been called. It is owned by one goroutine.
type Call struct {
	started, ended bool
	err            error
}

// Do runs f, waits for it, and returns its error, or a *PanicError if it panicked. It does not return if f
// calls runtime.Goexit; deferred functions of the caller then find ErrGoexit in Err. Without a panic it
// allocates nothing. A Call may be used again after Do has returned.
func (c *Call) Do(f func() error) (err error) {
	*c = Call{started: true}
	defer c.end(&err)
	c.err = f()
	c.ended = true
	return c.err
}

// end is deferred directly by Do, so that recover works. After Goexit there is nothing to recover and
// ended stays false, which is what Err reports.
func (c *Call) end(err *error) {
	if c.ended {
		return
	}
	value := recover()
	if value == nil {
		return
	}
	stack := make([]byte, MaxStackBytes)
	stack = stack[:runtime.Stack(stack, false)]
	c.err, c.ended = &PanicError{Value: value, Stack: stack}, true
	*err = c.err
}

// Goexit reports that f was started and neither returned nor panicked. It is meant for deferred
// functions of the goroutine that called Do; while f still runs it is true as well.
func (c *Call) Goexit() bool { return c.started && !c.ended }

// Err is how the call ended: nil, the error of f, a *PanicError, or ErrGoexit. Before Do it is nil.
func (c *Call) Err() error {
	if c.Goexit() {
		return ErrGoexit
	}
	return c.err
}
