// Package memstore is the reference implementation of [onefold.Store], in memory. It is written to be
// read: one mutex guards everything, and each method does what the contract says and nothing cleverer.
// Where the words of the contract leave a doubt, this code and package store/storetest settle it.
//
// It is for tests and for trying things out. A [Data] stands for what a disk would hold and a [Store] for
// one process that has it open, so tests of restarts and crashes need no files: close a Store or cut it
// off with [Data.Crash], then open the same Data again, or go on with a copy of it ([Data.Clone]). Everything is gone
// when the process ends.
//
// Reading order: data.go (what is kept), store.go, begin.go, commit.go, feed.go, settle.go, record.go,
// scan.go, clone.go.
//
// This package imports package onefold and the standard library.
package memstore
