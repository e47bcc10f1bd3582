// Package safecall runs a function of somebody else so that its panic becomes an error and its
// runtime.Goexit is noticed.
//
// A panic is recovered by [Call.Do]. Goexit cannot be recovered: it ends the goroutine after running its
// deferred functions. [Call.Do] therefore tells its caller through a Call that the caller owns, and the
// caller looks at it in a deferred function of its own:
//
//	var call safecall.Call
//	defer func() {
//		// Reached after a return, and also while Goexit ends this goroutine.
//		report(call.Err())
//	}()
//	call.Do(handler)
//
// A worker that must go on after a Goexit runs each call in a goroutine that it can replace, or lets the
// deferred function start its successor.
//
// This package imports onefold only.
package safecall
