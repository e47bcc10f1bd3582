// Package natstest runs a NATS server with JetStream inside the process, for tests and examples only.
//
// Tests call [Start] and never clean up: connections and server end with the test. Example functions and
// commands have no testing.TB; they call [StartAt], whose methods return errors.
//
// It may import nats.go and nats-server. Library code must not import it.
package natstest
