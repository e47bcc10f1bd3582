// Package sealed reads and writes the immutable files of a store: segment files, which hold records, and index
// files, which find them by hash. Both are bbolt files that are written once, aside and in order, synced,
// renamed into place, and never changed again; they end by being unlinked.
//
// A file says in its [Head] what it is, and who uses it compares that with what the store expects, so that
// a file of another store or of another range is told apart. What is read is checked block by block: each
// block holds the range it covers and a checksum, and a block that should be there and is not is damage, never
// a miss.
//
// A [Records] file answers by position, an [Index] by hash. An index begins with a filter in memory, which
// answers for most hashes that are not in it; it is a binary fuse filter, in shards, so that building one
// takes little memory however large the index is.
//
// The package knows nothing of keys, outcomes and retention: records are bytes here. It may import bbolt, the
// filter library, packages disk, guard, sum and onefold, and the standard library.
package sealed
