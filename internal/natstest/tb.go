package natstest

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Start starts a server in a temporary directory; it ends with the test. Options may be left out; only
// the first value counts.
func Start(tb testing.TB, options ...Options) *Server {
	tb.Helper()
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	s, err := StartAt(tb.TempDir(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return s
}

// Connect connects a client that is closed before the server stops.
func (s *Server) Connect(tb testing.TB, options ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	tb.Helper()
	nc, js, err := s.Dial(options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	return nc, js
}

// Restart stops the server and starts it again with the same port and streams. Connected clients see a
// lost connection and reconnect.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.Stop()
	if err := s.StartAgain(); err != nil {
		tb.Fatal(err)
	}
}
