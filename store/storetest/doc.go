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
// The suite reads what a store can do from [onefold.Store.Info]. A case that does not apply to a store is
// named in the log of the last subtest, so nothing is left out silently.
//
// This package imports package onefold, testify and the standard library.
package storetest
