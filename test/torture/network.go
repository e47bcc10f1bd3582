package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// link is the way from one process to the server, through a proxy that can fail.
type link struct {
	name  string
	proxy *toxiproxy.Proxy
	busy  sync.Mutex
}

// newLinks makes one proxy for each name, all to the same server.
func newLinks(names []string, upstream string) ([]*link, error) {
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	var links []*link
	for _, name := range names {
		p := toxiproxy.NewProxy(api, name, "127.0.0.1:0", upstream)
		if err := p.Start(); err != nil {
			return nil, fmt.Errorf("link of %s: %w", name, err)
		}
		links = append(links, &link{name: name, proxy: p})
	}
	return links, nil
}

func (l *link) url() string { return "nats://" + l.proxy.Listen }

// cut ends all connections and takes new ones at once. The proxy keeps its port.
func (l *link) cut() error {
	l.proxy.Stop()
	return l.listen()
}

// listen takes connections again. The port may be in use for a moment: by the end of an old connection, or by a new one
// that goes out from it.
func (l *link) listen() (err error) {
	for range 200 {
		if err = l.proxy.Start(); err == nil || errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
			return nil
		}
		_ = pause(context.Background(), 20*time.Millisecond)
	}
	return fmt.Errorf("link of %s: %w", l.name, err)
}

// poison puts a toxic on one direction, or on both.
func (l *link) poison(kind string, attributes map[string]any, streams ...string) error {
	for _, stream := range streams {
		body, err := json.Marshal(map[string]any{"name": kind + "_" + stream, "type": kind, "stream": stream, "attributes": attributes})
		if err != nil {
			return err
		}
		if _, err := l.proxy.Toxics.AddToxicJson(bytes.NewReader(body)); err != nil {
			return fmt.Errorf("%s on the link of %s: %w", kind, l.name, err)
		}
	}
	return nil
}

// heal takes all toxics off, cuts what they have left hanging, and takes connections.
func (l *link) heal() error {
	l.proxy.Stop()
	l.proxy.Toxics.ResetToxics(context.Background())
	return l.listen()
}

func (l *link) delay(d time.Duration) error {
	return l.poison("latency", map[string]any{"latency": d.Milliseconds(), "jitter": d.Milliseconds() / 4}, "upstream", "downstream")
}

// swallow lets nothing through while the connections stay open.
func (l *link) swallow(streams ...string) error {
	return l.poison("timeout", map[string]any{"timeout": 0}, streams...)
}
