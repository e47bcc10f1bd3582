// Package consumer runs a handler for the messages of one durable JetStream consumer so that each
// message takes effect once.
//
//	c, err := consumer.New(js, st, consumer.Config{
//		Stream: "ORDERS", Name: "billing",
//		Handler: consumer.JSON(func(ctx context.Context, o Order, fx *onefold.Effects) error {
//			fx.Publish("charges.create", chargeFor(o)) // leaves once, through a relay
//			return nil                                // commit, then ack
//		}),
//	})
//	if err != nil {
//		return err
//	}
//	return onefold.Run(ctx, c, relay) // see package outbox for the relay
//
// What the handler returns decides. nil commits what it asked for and acks the message. An error brings
// the message again after a growing delay, until Config.MaxAttempts make a dead letter of it. An error
// marked by onefold.Permanent makes a dead letter at once, onefold.RetryAfter chooses the delay. A copy of
// a message that is done is acked without running; a copy with another payload becomes a dead letter. Dead
// letters are messages: they leave through the relay, and only then is the message acked.
//
// [Request] publishes a message and waits for the result that its handler gives; a repeat is answered from the store.
//
// A run that takes longer than Config.HandlerTimeout is cancelled, and given up if it ignores that. A message that
// kills the process becomes a dead letter after a few deaths. Config.ParkUnknown is for handlers that must not be
// run again when nobody knows what they have done.
//
// Guarantees and their limits are in docs/guarantees.md, all defaults in docs/defaults.md.
//
// A message goes through five stages, each named in process.go, which is the file to read:
//
//	receive -> claim -> handle -> commit -> ack
//
// Between two stages a message is carried by one goroutine at a time; what to do next is decided by pure
// functions (verdict.go, prefetch.go, heartbeat.go, floor.go, overrun.go, suspect.go, park.go) over explicit state and an injected clock.
//
// This package imports onefold, dedupe, internal/pace, internal/safecall, nats.go, backoff and x/sync. It knows no
// store by name.
package consumer
