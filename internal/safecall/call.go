package safecall

import (
	"runtime"

	"github.com/onefold-go/onefold"
)

// Call is one call and how it ended. The zero value has not been called. It is owned by one goroutine.
type Call struct {
	started, ended bool
	err            error
}

// Do runs f, waits for it, and returns its error, or a *[onefold.PanicError] if it panicked. It does not return if f
// calls runtime.Goexit; deferred functions of the caller then find [onefold.ErrGoexit] in Err. Without a panic it
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
	stack := make([]byte, onefold.MaxStackBytes)
	stack = stack[:runtime.Stack(stack, false)]
	c.err, c.ended = &onefold.PanicError{Value: value, Stack: stack}, true
	*err = c.err
}

// Goexit reports that f was started and neither returned nor panicked. It is meant for deferred
// functions of the goroutine that called Do; while f still runs it is true as well.
func (c *Call) Goexit() bool { return c.started && !c.ended }

// Err is how the call ended: nil, the error of f, a *[onefold.PanicError], or [onefold.ErrGoexit]. Before Do it is nil.
func (c *Call) Err() error {
	if c.Goexit() {
		return onefold.ErrGoexit
	}
	return c.err
}
