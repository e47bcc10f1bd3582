package main

import (
	"context"
	"errors"

	"github.com/nats-io/nats-server/v2/server"
)

// serve is a NATS server with JetStream.
func serve(ctx context.Context, s spec, _ *offsetClock) error {
	srv, err := server.NewServer(&server.Options{
		ServerName: "torture", Host: "127.0.0.1", Port: s.Port, JetStream: true, StoreDir: s.Dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return err
	}
	srv.Start()
	if !srv.ReadyForConnections(serverStart) {
		return errors.New("the server takes no connections")
	}
	sayReady()
	<-ctx.Done()
	srv.Shutdown()
	srv.WaitForShutdown()
	return nil
}
