// Package boltstore is the default [onefold.Store]: one directory on a local disk, used by one process,
// kept in bbolt. A returned commit has been synced to the disk.
//
// Reading order: [Open] in open.go; the words of claims in stripes.go and begin.go; the way of a commit
// through commit.go, writer.go, group.go and publish.go; what is read back in snapshot.go; outgoing
// effects in rows.go, feed.go and settle.go. The stored bytes are drawn in docs/storage-format.md and
// written in the files whose names start with format.
//
// One goroutine, the writer, changes the file. It takes whatever waits in its queue, puts it into one
// bbolt transaction, commits, and then publishes: the read snapshot is renewed, records enter the index,
// claims end, rows reach the feed, callers are answered. Nothing is visible before it is durable.
//
// This package may import bbolt, siphash, package onefold and the standard library.
package boltstore
