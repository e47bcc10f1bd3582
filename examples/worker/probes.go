package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/onefold-go/onefold/consumer"
)

// probes answers an orchestrator: /readyz, whether messages are handled as they come, and /livez, whether starting the
// process anew could not help. It is a part like the others, and ends last.
type probes struct {
	address string
	work    *consumer.Consumer
	log     *slog.Logger
}

// Run serves until ctx ends.
func (p probes) Run(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", p.address)
	if err != nil {
		return fmt.Errorf("probes: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/readyz", p.work.ReadyHandler())
	mux.Handle("/livez", p.work.LiveHandler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	p.log.Info("probes", "address", l.Addr().String())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("probes: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = server.Shutdown(last)
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
