// Package outbox carries out what handlers asked for. A [Relay] reads committed rows from the store's
// feed, publishes them to JetStream or calls registered Go functions, and records what became of each. [Enqueue]
// commits messages and calls from outside any handler, once per key. [Parked], [Resume] and [Discard] are for people.
//
// One relay per store is enough; it runs next to the consumers and stops after them:
//
//	relay, err := outbox.NewRelay(st, outbox.Config{JetStream: js})
//	// ...
//	err = onefold.Run(ctx, orders, relay)
//
// Messages that no handler asks for go in by Enqueue, which returns when they are durable. Asking again
// with the same key, after a crash or without an answer, sends them once:
//
//	key := onefold.Key{Scope: "signup", ID: user.ID}
//	_, err := outbox.Enqueue(ctx, st, key, 0, func(fx *onefold.Effects) error {
//		fx.Publish("mail.welcome", Welcome{To: user.Mail})
//		return nil
//	})
//
// A call leaves a handler by fx.Call("charge-card", card) and is made by the function of that name:
//
//	outbox.Config{JetStream: js, Functions: map[string]outbox.Function{
//		"charge-card": {Do: outbox.JSON(func(ctx context.Context, card Card, c outbox.Call) error {
//			return bank.Charge(ctx, c.Key, card) // the bank dedupes by c.Key
//		})},
//	}}
//
// A row may wait for its time (Effect.NotBefore), and one with a name (Effect.Timer) may be replaced or cancelled until
// it has left; [onefold.Effects.Emit] says how, and its example shows a reminder.
//
// What is promised: every committed row is published at least once and always under the same ID, which is
// both its Nats-Msg-Id and its Onefold-Id. Within the stream's duplicate window the server drops the copies,
// after it the consumer does. A row leaves the outbox when its stream has answered, never because of what a
// receiver does with it. Rows of one ordering key leave one at a time in the order of their commits. A server
// or store that is away keeps rows waiting, however long; a row that is refused Config.MaxAttempts times, or
// that can never fit, is parked for a person and delays only those of its ordering key. What is not promised:
// that a receiver without dedupe sees a message once.
//
// Of calls: json.go decodes their payloads; function.go says what a function may expect and what its errors mean. A slow one delays neither messages
// nor other functions.
//
// Reading order: relay.go (opening and reopening), session.go (fetch, publish, collect), verdict.go (what
// an answer means), capture.go (does a stream take it), verify.go (is a duplicate one), outcome.go and finish.go (from
// answers to settlements), state.go (what the observer hears), publisher.go (JetStream); function.go, calls.go (windows),
// turns.go (what has no room), call_try.go (one call), call_verdict.go (what its end means); parked.go, backlog.go,
// enqueue.go.
//
// It imports package onefold, internal/commit, internal/pace, internal/safecall, nats.go and cenkalti/backoff; never
// a store, and never package dedupe.
package outbox
