// Package boltstore is the default [onefold.Store]: one directory on a local disk, used by one process,
// kept in bbolt.
//
// # Use
//
//	st, err := boltstore.Open("/var/lib/billing/onefold", nil)
//	if err != nil {
//		return err // names what is wrong with the directory, and the remedy
//	}
//	defer func() { err = errors.Join(err, st.Close(context.Background())) }()
//
//	work, err := consumer.New(js, st, consumer.Config{Stream: "ORDERS", Name: "billing", Handler: handler})
//	// ...
//	relay, err := outbox.NewRelay(st, outbox.Config{JetStream: js})
//	// ...
//	return onefold.Run(ctx, work, relay)
//
// A program opens the store, hands it to consumers, guards and relays, and closes it last. The zero [Options] are good.
// The example of [Open] commits an entry by hand, as those do on their own.
//
// A program keeps data of its own in the same file: [Tx] writes it in the commit of a handler or of outbox.Enqueue,
// so that it changes together with the mark and the messages or not at all, and [Store.View] reads it:
//
//	err := boltstore.Tx(fx, func(tx *bolt.Tx) error {
//		b, err := tx.CreateBucketIfNotExists([]byte("orders"))
//		if err != nil {
//			return err
//		}
//		return b.Put([]byte(order.ID), body)
//	})
//
// # Guarantees
//
//   - A commit that returned has been synced to the disk, and nothing is visible before it is.
//   - A store that cannot be used is never replaced by an empty one, and a version that cannot read a
//     store refuses it before it writes a byte.
//   - A full disk costs nothing but the commits it refuses with [onefold.ErrFull]; effects that have left can
//     still be settled. Until there is room no fresh key is taken, so that no handler runs in vain.
//   - After a write of which nobody knows whether it is on the disk, the store stops: every call gets
//     [onefold.ErrDamaged], and the next Open reads the file from the disk. Close does not take that back.
//   - A damaged file is found page by page at Open, before bbolt sees it: pages that cannot be right, values whose
//     checksum is wrong, and entries that are missing. So is an older copy of the file. What remains is said at
//     internal/guard: a disk that fails while it is written to.
//   - Retention is counted while the store is open, by the monotonic clock; setting the wall clock changes
//     nothing but appointments.
//
// # Limits
//
// One process; a second Open waits for Options.LockWait and gets [onefold.ErrInUse]. One feed at a time. Memory
// holds an index of the records that are not sealed, about 1.25 bytes for each that is, and a reference to each
// waiting row. The main file does not shrink; see [Compact]. A network file system is no place for a store; see docs/operations.md.
//
// # Reading the source
//
// Open in open.go, and what is let in in admit.go and survey.go; the words of claims in stripes.go and
// begin.go; the way of a commit through commit.go, writer.go, group.go and publish.go; what is read back in
// snapshot.go and view.go; writes of the program itself in join.go and tries.go; when fresh keys are refused in
// limits.go and room.go; outgoing effects in rows.go, lanes.go, feed.go and settle.go. The stored bytes are drawn in
// docs/storage-format.md and written in the files whose names start with format.
//
// One goroutine, the writer, changes the file. It takes whatever waits in its queue, puts it into one
// bbolt transaction, makes sure of the room on the disk, commits, and then publishes: the read snapshot is
// renewed, records enter the index, claims end, rows reach the feed, callers are answered.
//
// A record's way after that: it stands in a piece of the journal (journal.go, pieces.go) until its segment is full
// or old, is sealed into an immutable file with its neighbours (seal.go; the files are written and read by
// internal/sealed), is found there through the shelf, the set of files that count (shelf.go, find.go), and ends with
// its file. Another goroutine, the upkeep, does this (upkeep.go, decisions in plan.go, its pace in pace.go); each
// piece of its work ends with an op for the writer (flip.go). What Open makes of the files is in recover.go and load.go.
// Backup, Restore, Check and Compact stand in backup.go, restore.go, inspect.go and compact.go.
//
// This package may import bbolt, siphash, its internal packages, package onefold and the standard library.
package boltstore
