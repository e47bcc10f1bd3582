// Package memstore is the reference implementation of [onefold.Store], in memory. It is written to be
// read: one mutex guards everything, and each method does what the contract says and nothing cleverer.
// Where the words of the contract leave a doubt, this code and package store/storetest settle it.
//
// It is for tests and for trying things out. A [Data] stands for what a disk would hold and a [Store] for
// one process that has it open, so tests of restarts and crashes need no files: close a Store or cut it
// off with [Data.Crash], then open the same Data again, or go on with a copy of it ([Data.Clone]). Everything is gone
// when the process ends.
//
//	data := memstore.NewData(onefold.Clock{})
//	st, err := memstore.Open(data, nil) // or memstore.New(), where nothing has to outlive the Store
//	// ... use st as any store ...
//	data.Crash()                       // the process dies
//	st, err = memstore.Open(data, nil) // and another one finds what was committed
//
// What is promised is the contract of [onefold.Store], except that nothing is durable (Info.Durable is false).
//
// Reading order: data.go (what is kept), store.go, begin.go, commit.go, feed.go, settle.go, record.go,
// scan.go, clone.go.
//
// This package imports package onefold and the standard library.
package memstore
