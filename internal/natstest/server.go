package natstest

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options changes the server. The zero value is a server on a random port of 127.0.0.1 with the server's
// own limits.
type Options struct {
	Name         string        // of the server; "": onefold-test
	MaxPayload   int32         // bytes of one message; 0: the server's default, 1 MiB
	StoreLimit   int64         // bytes of file storage for all streams; 0: what the disk has
	SyncAlways   bool          // sync each write before it is answered
	Config       string        // more settings, in the format of the server's configuration file: accounts, permissions
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
	options, err := s.serverOptions()
	if err != nil {
		return fmt.Errorf("read the configuration of embedded nats-server: %w", err)
	}
	srv, err := server.NewServer(options)
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

func (s *Server) serverOptions() (*server.Options, error) {
	o := &server.Options{}
	if s.options.Config != "" {
		if err := o.ProcessConfigString(s.options.Config); err != nil {
			return nil, err
		}
	}
	o.ServerName = cmp.Or(s.options.Name, "onefold-test")
	o.Host, o.Port = "127.0.0.1", s.port
	o.MaxPayload = s.options.MaxPayload
	o.JetStream, o.StoreDir, o.JetStreamMaxStore, o.SyncAlways = true, s.dir, s.options.StoreLimit, s.options.SyncAlways
	o.NoLog, o.NoSigs = true, true
	return o, nil
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

// Wipe removes all that a stopped server has stored, as losing its disk would.
func (s *Server) Wipe() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return errors.New("the server runs; stop it before its streams are removed")
	}
	return os.RemoveAll(s.dir)
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
