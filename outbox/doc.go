// Package outbox carries out what handlers asked for. A [Relay] reads committed rows from the store's
// feed, publishes them to JetStream and records what became of each. [Enqueue] commits messages from
// outside any handler, once per key.
//
// Every row is published at least once and always under the same ID, which is both its Nats-Msg-Id and
// its Onefold-Id: within the stream's duplicate window the server drops the copies, after it the consumer
// does. A row leaves the outbox when its stream has answered, never because of what a receiver does with
// it.
//
// Reading order: relay.go (opening and reopening), session.go (fetch, publish, collect), verdict.go (what
// an answer means), finish.go (from answers to settlements), publisher.go (JetStream), enqueue.go.
//
// It imports package onefold, nats.go and cenkalti/backoff; never a store, and never package dedupe.
package outbox
