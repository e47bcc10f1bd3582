// Package consumer runs a handler for the messages of one durable JetStream consumer so that each
// message takes effect once.
//
// A message goes through five stages, each named in process.go, which is the file to read:
//
//	receive -> claim -> handle -> commit -> ack
//
// Between two stages a message is carried by one goroutine at a time; what to do next is decided by pure
// functions (verdict.go, prefetch.go, heartbeat.go, floor.go) over explicit state and an injected clock.
//
// This package imports onefold, dedupe and nats.go. It knows no store by name.
package consumer
