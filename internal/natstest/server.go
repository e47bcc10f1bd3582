package natstest

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options changes the server. The zero value is a server on a random port of 127.0.0.1 with the server's
// own limits.
type Options struct {
	MaxPayload   int32         // bytes of one message; 0: the server's default, 1 MiB
	StoreLimit   int64         // bytes of file storage for all streams; 0: what the disk has
	SyncAlways   bool          // sync each write before it is answered
	ReadyTimeout time.Duration // how long a start may take; default DefaultReadyTimeout
}

// DefaultReadyTimeout is how long a start may take.
const DefaultReadyTimeout = 20 * time.Second

// Server is one embedded server. Its methods may be called from several goroutines.
type Server struct {
	dir     string
	options Options

	mu      sync.Mutex
	running *server.Server // nil while stopped
	port    int            // server.RANDOM_PORT until the first start
}

// StartAt starts a server that keeps its streams below dir. It returns when the server takes connections.
func StartAt(dir string, o Options) (*Server, error) {
	if o.ReadyTimeout <= 0 {
		o.ReadyTimeout = DefaultReadyTimeout
	}
	s := &Server{dir: dir, options: o, port: server.RANDOM_PORT}
	if err := s.StartAgain(); err != nil {
		return nil, err
	}
	return s, nil
}

// StartAgain starts a stopped server on its old port with its old streams. On a running one it does
// nothing.
func (s *Server) StartAgain() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return nil
	}
	srv, err := server.NewServer(s.serverOptions())
	if err != nil {
		return fmt.Errorf("configure embedded nats-server: %w", err)
	}
	srv.Start()
	if !srv.ReadyForConnections(s.options.ReadyTimeout) {
		srv.Shutdown()
		srv.WaitForShutdown()
		return fmt.Errorf("embedded nats-server is not ready after %v", s.options.ReadyTimeout)
	}
	// Later starts reuse the port, so that clients find the server again.
	if addr, ok := srv.Addr().(*net.TCPAddr); ok {
		s.port = addr.Port
	}
	s.running = srv
	return nil
}

func (s *Server) serverOptions() *server.Options {
	return &server.Options{
		ServerName:        "onefold-test",
		Host:              "127.0.0.1",
		Port:              s.port,
		MaxPayload:        s.options.MaxPayload,
		JetStream:         true,
		StoreDir:          s.dir,
		JetStreamMaxStore: s.options.StoreLimit,
		SyncAlways:        s.options.SyncAlways,
		NoLog:             true,
		NoSigs:            true,
	}
}

// URL is where clients connect. It stays the same over restarts.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("nats://127.0.0.1:%d", s.port)
}

// Dial connects a client that keeps trying to reconnect for ever. The caller closes it.
func (s *Server) Dial(options ...nats.Option) (*nats.Conn, jetstream.JetStream, error) {
	base := []nats.Option{
		nats.MaxReconnects(-1),
		nats.ReconnectWait(10 * time.Millisecond),
		nats.ReconnectJitter(0, 0),
	}
	nc, err := nats.Connect(s.URL(), append(base, options...)...)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to embedded nats-server: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("open JetStream: %w", err)
	}
	return nc, js, nil
}

// Stop shuts the server down and waits until it has ended. Its streams stay on disk. Stopping twice is
// harmless.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	s.running.Shutdown()
	s.running.WaitForShutdown()
	s.running = nil
}
