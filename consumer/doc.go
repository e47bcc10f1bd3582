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
// [DeadLetters] reads them, as typed values, and redrives them when what was wrong is mended: one, or a frozen
// selection, with a dry run before and at a rate. A redriven message keeps its ID and goes on as the next generation
// of its key, so that redriving twice runs it once.
//
// [Request] publishes a message and waits for the result that its handler gives; a repeat is answered from the store.
//
// A run that takes longer than Config.HandlerTimeout is cancelled, and given up if it ignores that. A message that
// kills the process becomes a dead letter after a few deaths. Config.ParkUnknown is for handlers that must not be
// run again when nobody knows what they have done.
//
// One consumer can have several handlers. [RouteBySubject] and [RouteByHeader] make one [onefold.Handler] of them and
// check it when it is made; a message that no route takes becomes a dead letter, or is skipped with [Ignore]:
//
//	orders, err := consumer.RouteBySubject(map[string]onefold.Handler{
//		"orders.new":       consumer.JSON(bill),
//		"orders.*.changed": consumer.JSON(note),
//	}, consumer.Ignore)
//
// [JSON] and [Raw] decode bodies, and package consumer/protobuf another format. Whatever else shall happen around a
// handler is a [Middleware]: [Timeout], [GiveUpAfter], or a function of yours; [Chain] puts them in order.
//
// [Batch] hands several messages to one call, each with an outcome and effects of its own.
//
// Config.OrderBy gives an order within keys, Config.RateLimit a pace; Consumer.Pause and Consumer.Resume stop it and
// let it go on; Consumer.Health, ReadyHandler and LiveHandler tell how it is.
//
// What is promised, per message ID and within Config.Retention: the effects of at most one run are committed, and of
// exactly one if any run succeeds; nothing is acked before its outcome, success or dead letter, is durable; a message is
// done, a dead letter, or still in the stream. What is not promised: that a handler runs once, and, without
// Config.OrderBy, any order. docs/guarantees.md says it in full, with what each setting weakens; docs/defaults.md has all
// defaults. What needs a setting of the stream or the durable is checked when Run starts.
//
// A message goes through five stages, each named in process.go, which is the file to read:
//
//	receive -> claim -> handle -> commit -> ack
//
// Between two stages a message is carried by one goroutine at a time; what to do next is decided by pure
// functions (verdict.go, prefetch.go, heartbeat.go, floor.go, overrun.go, suspect.go, park.go) over explicit state and
// an injected clock.
//
// [Rehearsal] takes messages through the same stages by hand, without a server; package onefoldtest, the kit for
// tests of handlers, is made of it.
//
// This package imports onefold, dedupe, internal/pace, internal/safecall, nats.go, backoff, x/sync and x/time/rate. It knows no
// store by name.
package consumer
