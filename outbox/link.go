package outbox

import (
	"context"

	"github.com/nats-io/nats.go"
)

// awaitConnected waits until conn is connected. Errors: [nats.ErrConnectionClosed], or the cause of ctx.
func awaitConnected(ctx context.Context, conn *nats.Conn) error {
	if conn.IsConnected() {
		return nil
	}
	// Registered before the first look, so that no change falls in between.
	changes := conn.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer conn.RemoveStatusListener(changes)
	for {
		switch {
		case conn.IsClosed():
			return nats.ErrConnectionClosed
		case conn.IsConnected():
			return nil
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitClosed waits until conn is closed for good, and reports false if ctx ends before.
func awaitClosed(ctx context.Context, conn *nats.Conn) bool {
	changes := conn.StatusChanged(nats.CLOSED)
	defer conn.RemoveStatusListener(changes)
	if conn.IsClosed() {
		return true
	}
	select {
	case <-changes:
		return true
	case <-ctx.Done():
		return false
	}
}
