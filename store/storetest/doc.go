// Package storetest proves that a store holds what the contract of [onefold.Store] says. [Run] is the
// conformance suite: one named case per rule, and [Rules] lists the rules in words. [Bench] holds the
// benchmarks that all stores share. [Clock] is the time that the suite gives to a store.
//
// A store's own test needs a few lines:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Harness{Open: open})
//	}
//
// See the example of [Run] for open. A store that passes holds each of the rules that apply to it; what
// only a disk or a server can do to it, such as losing power in the middle of a write, is for tests of its own.
//
// The suite reads what a store can do from [onefold.Store.Info]. A case that does not apply to a store is
// named in the log of the last subtest, so nothing is left out silently.
//
// What can only be shown by holding a write, failing one, or opening the data twice needs a hook in
// [Instance]; a store on disk or on a server should set all that it can.
//
// The suite checks what the contract says, and the contract leaves open:
//
//   - how long the history of a key without an outcome is kept. The suite expects it some minutes later
//     and after a clean close; that it ends at all, or outlives the retention of records, is the store's to
//     say. An outcome ends the history, and the suite checks that.
//   - whether a second Erase of a key whose record has expired finds anything.
//   - whether a row of other data is refused as invalid or as lost.
//   - how far counters in Stats are off where Exact is false: the suite asks that they miss nothing that
//     is there and count nothing that never was.
//
// This package imports package onefold, testify and the standard library.
package storetest
