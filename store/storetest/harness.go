package storetest

import (
	"testing"

	"github.com/onefold-go/onefold"
)

// Harness tells the suite how to make stores of one kind. Only Open is required.
type Harness struct {
	// Open makes an empty store that takes its time from clock. It is called once or more per case, from
	// the goroutine of the case; it ends the case with t.Fatal if it cannot. The suite closes the store;
	// anything else is removed with t.Cleanup or t.TempDir.
	Open func(t testing.TB, clock onefold.Clock) Instance

	// Limited is Open with a limit on live records, at which Begin refuses fresh keys with ErrFull. nil:
	// the store has no such limit.
	Limited func(t testing.TB, clock onefold.Clock, maxRecords int) Instance
}

// Instance is one store under test and the way to open its data again.
type Instance struct {
	Store onefold.Store

	// Reopen ends the store that was opened last and opens the same data again, with the same clock. With
	// clean it is closed first, which is success if the case has closed it already. Without clean it is
	// cut off as by the death of its process: nothing that was not durable may survive, and calls on it
	// fail from then on. nil: the store keeps nothing.
	Reopen func(t testing.TB, clean bool) onefold.Store

	// HoldCommits makes the following calls of Commit on Store stop when their entries have been accepted
	// and before they are written, as a slow disk would. accepted is closed when the first one is there;
	// release lets all go on and is called once. nil: the store cannot be held there.
	// A store whose Settle waits for the same writer may hold it there, too.
	HoldCommits func(t testing.TB) (accepted <-chan struct{}, release func())

	// FailCommits makes the next physical write of Store fail at a moment when nobody can tell whether it
	// is stored, as a disk or a connection that fails during a sync. Later writes may work or not. nil: a
	// write cannot be made to fail.
	FailCommits func(t testing.TB)

	// Another opens the data of Store once more while it is open, as a second process or a second handle
	// would. With Info.OneProcess it must fail, and the suite looks at the error. The suite closes the
	// store. nil: the data cannot be reached twice.
	Another func(t testing.TB) (onefold.Store, error)
}
