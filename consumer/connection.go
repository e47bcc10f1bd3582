package consumer

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// watchConnection tells of a server that cannot be reached, and ends the session when the connection is
// closed for good, whether something is asked for or not. It ends with ctx.
func (s *session) watchConnection(ctx context.Context) {
	conn := s.js.Conn()
	// Registered before the first look, so that no change falls in between.
	changes := conn.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED)
	defer conn.RemoveStatusListener(changes)
	for {
		switch {
		case conn.IsClosed():
			s.fail(jetstream.ErrConnectionClosed)
			return
		case !conn.IsConnected():
			s.stopFor(whyServer, true, disconnected(conn))
		case s.stops.has(whyServer):
			s.stopFor(whyServer, false, nil)
			s.announce() // somebody may have started where we could not hear each other
		}
		select {
		case <-ctx.Done():
			return
		case <-changes:
		}
	}
}

// disconnected says that the server is away, and warns of a client that will give up on it.
func disconnected(conn *nats.Conn) error {
	if tries := conn.Opts.MaxReconnect; conn.Opts.AllowReconnect && tries < 0 {
		return nats.ErrDisconnected
	} else if conn.Opts.AllowReconnect {
		return fmt.Errorf("%w: the client gives up after %d tries at each server, %v apart, and then Run ends; set nats.MaxReconnects(-1) on the connection",
			nats.ErrDisconnected, tries, conn.Opts.ReconnectWait)
	}
	return fmt.Errorf("%w: the client may not reconnect, and Run ends; leave nats.NoReconnect out", nats.ErrDisconnected)
}
