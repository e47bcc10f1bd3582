// Package onefold holds the nouns of the framework: messages, keys, effects, entries and the store
// contract. JetStream delivers at least once; onefold makes the effects of a message happen once.
//
// A [Handler] asks for [Effects]: outgoing messages, state writes, a result. When it returns nil, one
// [Store.Commit] makes the effects durable together with the mark that its [Key] is done, and only then
// is the message acked. A duplicate finds the mark. Outgoing messages leave through a relay that reads
// them from the same store, so they survive a crash on either side of the commit.
//
// A handler that asks for a message, writes state, and has a reminder sent in three days unless the order is paid before:
//
//	func place(ctx context.Context, o Order, fx *onefold.Effects) error {
//		if o.ID == "" {
//			return onefold.Permanent(errNoID) // a dead letter
//		}
//		fx.Publish("orders.confirmed", o)
//		fx.Put("orders", o.ID, o.bytes())
//		fx.Emit(onefold.Effect{
//			Target: "mail.reminder", Payload: o.bytes(),
//			Timer: "reminder/" + o.ID, NotBefore: o.Placed.Add(72 * time.Hour),
//		})
//		return nil // commit, then ack
//	}
//
//	func paid(ctx context.Context, p Payment, fx *onefold.Effects) error {
//		fx.Emit(onefold.Effect{Timer: "reminder/" + p.Order, Cancel: true})
//		return nil
//	}
//
// An effect with NotBefore waits in the store for its time. One with a Timer has a name: another effect of the same name,
// of the same consumer, replaces it as long as it has not left, and one with Cancel removes it; see [Effects.Emit]. A
// service is a store, a consumer with such a handler and a relay, kept going by [Run]; examples/quickstart is one.
//
// What is promised, per key and within its retention:
//
//   - the effects of at most one run are committed, and of exactly one if any run succeeds;
//   - every committed outgoing message is published at least once, always under the same ID;
//   - nothing is acked before its outcome is durable.
//
// What is not promised: that the code in a handler runs once. It may run several times (process death,
// version conflict, rejected join, lost lease, unresolved commit, any error); only its effects are once.
// For a direct call use [Effects.IdempotencyKey] and [Effects.Token], or move the call into the outbox.
//
// Packages around this one: consumer receives from JetStream, outbox sends what handlers asked for,
// dedupe finds IDs and fingerprints and offers a Guard for work that arrives another way, store/boltstore
// keeps it all on disk, store/memstore is the reference, store/storetest proves a store.
//
// This package imports the standard library only.
package onefold
