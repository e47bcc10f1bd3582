package consumer_test

import "runtime"

// goexit ends the goroutine of a handler, as t.FailNow does.
func goexit() { runtime.Goexit() }
