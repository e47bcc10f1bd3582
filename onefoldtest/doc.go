// Package onefoldtest tests handlers: in process, in milliseconds, without a server. A [Kit] runs a handler through
// the stages of a consumer (claim, run, commit, ack) on a store in memory, with a clock that stands still, and does to
// it what production does: it lets the process die at each named point, delivers again, delivers copies, loses leases.
//
//	func TestBilling(t *testing.T) {
//		kit := onefoldtest.New(t, consumer.Config{Handler: consumer.JSON(handle)})
//		order := kit.Message("orders.new", "order-7", Order{ID: "order-7", Cents: 500})
//		kit.Survives(order)
//		kit.Published("charges.create", Charge{Order: "order-7", Cents: 500})
//	}
//
// # What a handler has to get right
//
// Its effects, which it asks for through fx, happen once, whatever it does. Three things are its own to get right, and
// the kit looks at them in whatever a test does:
//
//   - A rerun asks for the same. Two runs of one key that read the same state, in whatever order, must ask for equal
//     effects (IDs, kinds, targets, headers, payloads, ordering keys, timers, calls at least or at most once), writes
//     (with how long they are kept) and result. A handler that takes an ID or a time from anywhere but the message
//     fails here, with the difference. (NotBefore is not compared: a delay may count from the run.)
//   - It calls nobody directly, or passes on fx.IdempotencyKey. Put a [Probe] into the stand-in for the called
//     service. The kit counts its calls over all runs of a key, and fails when there was more than one without a key,
//     or when two runs that read the same state passed different keys. Runs that end with an error or a panic count,
//     because what they have called is called; they may have passed a part of the keys only.
//   - It ends with its run. A call of a probe after the handler has returned comes from a goroutine that was left
//     behind.
//
// # What a test can do
//
// [Kit.Survives] is the whole programme for some messages, and compares what is left after each trouble with what an
// undisturbed run leaves. Each trouble starts with a copy of what the kit has then, so that a message may have a past:
// one that failed while a stand-in was down meets all troubles when the stand-in is up again. Stand-ins are not copied:
// one that remembers keeps what it remembers from trouble to trouble. [Kit.AnyOrder] delivers messages in other orders;
// onefold promises no order, so a handler whose outcome depends on it should ask for one, or compare versions.
//
// By hand: [Kit.Deliver] delivers once, [Kit.Run] until the message is settled, [Kit.CrashAt] lets the process die at a
// point, [Kit.During] does something while the handler runs, [Kit.Elsewhere] delivers to a second process, [Kit.Copy]
// makes a copy with a position of its own, [Kit.Advance] lets time pass, and [Kit.Seed] puts state there first. Then
// [Kit.Published], [Kit.Called], [Kit.Result], [Kit.State], [Kit.Succeeded] and [Kit.DeadLetter] say what has to be there.
//
// The Config is the service's own: ID, Fingerprint, Scope, MaxAttempts, DeadLetterSubject and the retry delays count.
// What concerns the server and the pace (prefetch, AckWait signals, filters, OrderBy, RateLimit) does not come into
// play. A relay of the kit stands in for that of package outbox: what it sends is kept in memory, each ID once, as a
// receiver that dedupes has it.
//
// # What it cannot do
//
// The store is memstore: a handler that writes its own tables with boltstore.Tx cannot run on it; keep the decision in
// a function that is tested here, or test against boltstore with an embedded server. Handlers run one at a time, so
// data races between messages are for the race detector and a test of your own. Redriving a dead letter needs a server. Whether streams exist that capture
// what is published is not known here.
//
// It imports onefold, consumer, dedupe, store/memstore, and store/storetest for the clock.
package onefoldtest
