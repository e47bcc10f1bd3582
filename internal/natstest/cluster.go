package natstest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Cluster is several servers that replicate their streams.
type Cluster struct{ Servers []*Server }

// StartCluster starts n servers, which end with the test. It returns when they have a leader among them.
func StartCluster(tb testing.TB, n int) *Cluster {
	tb.Helper()
	ports := freePorts(tb, n)
	routes := make([]string, n)
	for i, p := range ports {
		routes[i] = fmt.Sprintf("nats-route://127.0.0.1:%d", p)
	}
	c := &Cluster{}
	for i, p := range ports {
		config := fmt.Sprintf("cluster { name: test, listen: \"127.0.0.1:%d\", routes: [%s] }", p, strings.Join(routes, ", "))
		c.Servers = append(c.Servers, Start(tb, Options{Name: fmt.Sprintf("node-%d", i+1), Config: config}))
	}
	nc, js := c.Connect(tb)
	defer nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), DefaultReadyTimeout)
	defer cancel()
	for !c.replicates(ctx, js) {
		if ctx.Err() != nil {
			tb.Fatal("the servers of the cluster do not agree on a leader")
		}
	}
	return c
}

// replicates reports whether a stream can be made on every server.
func (c *Cluster) replicates(ctx context.Context, js jetstream.JetStream) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	const name = "NATSTEST_READY"
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Replicas: len(c.Servers)}); err != nil {
		return false
	}
	return js.DeleteStream(ctx, name) == nil
}

// Connect connects a client that goes to any server that it can reach.
func (c *Cluster) Connect(tb testing.TB, options ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	tb.Helper()
	var urls []string
	for _, s := range c.Servers {
		urls = append(urls, s.URL())
	}
	return c.Servers[0].Connect(tb, append(options, func(o *nats.Options) error { o.Servers = urls; return nil })...)
}

// Named returns the server of that name, as leaders are named in replies; nil: none.
func (c *Cluster) Named(name string) *Server {
	for _, s := range c.Servers {
		if s.options.Name == name {
			return s
		}
	}
	return nil
}

// freePorts finds ports that nobody listens on. Routes have to be known before the servers start.
func freePorts(tb testing.TB, n int) (ports []int) {
	tb.Helper()
	for range n {
		l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		defer func() { _ = l.Close() }() // after all are found, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
