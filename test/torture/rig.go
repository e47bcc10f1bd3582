package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	duplicateWindow = 2 * time.Minute
	retention       = 2 * time.Hour // longer than a run
)

// rig is a whole system and those who strike it.
type rig struct {
	options options
	dir     string
	ledger  *ledger
	epoch   atomic.Int64 // how often the server has lost its data

	server  *process
	workers []*process // the sink is the last one
	links   []*link    // of the workers, of the sink, of the producers
	running sync.WaitGroup
	failed  chan error // of a process that cannot be started

	js jetstream.JetStream // of the rig, without a proxy

	effects []sentEffect
	letters []letter

	mu     sync.Mutex
	struck map[string]int
}

// run runs the system under its faults, heals it, lets it settle, and reads what everybody has.
func (r *rig) run(ctx context.Context) (facts, error) {
	nc, err := r.start(ctx)
	if err != nil {
		return facts{}, err
	}
	defer nc.Close()
	defer r.stop()
	own, js, err := connect(r.links[len(r.links)-1].url())
	if err != nil {
		return facts{}, err
	}
	defer own.Close()
	publishing, endPublishing := context.WithTimeout(ctx, r.options.length)
	defer endPublishing()
	p := &producers{options: r.options, js: js, ledger: r.ledger, epoch: func() int { return int(r.epoch.Load()) }}
	published := make(chan struct{})
	go func() { defer close(published); p.run(publishing) }()
	err = r.strikeAll(publishing)
	<-publishing.Done()
	log.Printf("healing; %d messages confirmed", r.ledger.accepted)
	if err = errors.Join(err, r.heal()); err != nil {
		return facts{}, err
	}
	<-published
	left := r.settle(ctx)
	return r.collect(left)
}

// start starts everything.
func (r *rig) start(ctx context.Context) (*nats.Conn, error) {
	r.failed, r.struck = make(chan error, 1), map[string]int{}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	r.server = r.process(spec{Role: "server", Name: "server", Port: port, Dir: filepath.Join(r.dir, "server")})
	r.launch(r.server)
	if err := r.server.awaitReady(ctx); err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	nc, js, err := connect("nats://" + address)
	if err != nil {
		return nil, err
	}
	r.js = js
	if err := r.makeStreams(ctx); err != nil {
		return nc, err
	}
	var names []string
	for i := range r.options.workers {
		names = append(names, fmt.Sprint("worker-", i))
	}
	names = append(names, "sink")
	if r.links, err = newLinks(append(slices.Clone(names), "producers"), address); err != nil {
		return nc, err
	}
	for i, name := range names {
		s := spec{Role: "worker", Name: name, URL: r.links[i].url(), Part: i, Ordered: i%2 == 0, Retention: retention,
			Dir: filepath.Join(r.dir, name)}
		if name == "sink" {
			s.Role = "sink"
		}
		r.workers = append(r.workers, r.process(s))
		r.launch(r.workers[i])
	}
	for _, w := range r.workers {
		if err := w.awaitReady(ctx); err != nil {
			return nc, err
		}
	}
	return nc, nil
}

// process makes a process that does not run yet.
func (r *rig) process(s spec) *process {
	s.Journal = filepath.Join(r.dir, s.Name+".journal")
	return &process{base: s, dir: r.dir, exits: map[string]int{}}
}

// launch keeps a process running.
func (r *rig) launch(p *process) {
	r.running.Go(func() {
		if err := p.run(); err != nil {
			select {
			case r.failed <- err:
			default:
			}
		}
	})
}

func connect(url string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true),
		nats.PingInterval(500*time.Millisecond), nats.MaxPingsOutstanding(3))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	return nc, js, err
}

func freePort() (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// strikeAll carries the plan out. Faults overlap, as they do in the world.
func (r *rig) strikeAll(ctx context.Context) error {
	start := time.Now()
	var under sync.WaitGroup
	defer under.Wait()
	for _, s := range planned(r.options) {
		if pause(ctx, time.Until(start.Add(s.At))) != nil {
			return nil
		}
		select {
		case err := <-r.failed:
			return err
		default:
		}
		under.Go(func() {
			done, err := r.strike(ctx, s)
			log.Printf("%v %s %d %v: %v %v", s.At.Round(time.Millisecond), s.Kind, s.Target, s.Length.Round(time.Millisecond), done, err)
			if done {
				r.mu.Lock()
				r.struck[s.Kind]++
				r.mu.Unlock()
			}
		})
	}
	return nil
}

// heal makes all well again: clocks, links, and processes that may have been started to die or on a bad disk.
func (r *rig) heal() error {
	var errs []error
	r.server.signal(syscall.SIGCONT)
	for _, l := range r.links {
		errs = append(errs, l.heal())
	}
	for _, w := range r.workers {
		w.setWall(0)
		w.signal(syscall.SIGCONT)
		w.kill(launch{}, 0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.server.awaitReady(ctx); err != nil {
		return err
	}
	return errors.Join(append(errs, r.makeStreams(ctx))...)
}

// settle waits until nothing is left to do for a while, and says who still has something to do when the time is over.
func (r *rig) settle(ctx context.Context) (left []string) {
	const calm = 8 // looks in a row
	ctx, cancel := context.WithTimeout(ctx, r.options.settle)
	defer cancel()
	for quiet := 0; quiet < calm; quiet++ {
		if left = r.busy(ctx); len(left) > 0 {
			quiet = -1
		}
		if pause(ctx, 500*time.Millisecond) != nil {
			return left
		}
	}
	return nil
}

// busy says which durables have something to do.
func (r *rig) busy(ctx context.Context) (left []string) {
	for i := range r.workers {
		stream, name := r.durable(i)
		c, err := r.js.Consumer(ctx, stream, name)
		if err != nil {
			left = append(left, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		if info := c.CachedInfo(); info.NumPending > 0 || info.NumAckPending > 0 {
			left = append(left, fmt.Sprintf("%s has %d messages to come and %d unanswered", name, info.NumPending, info.NumAckPending))
		}
	}
	return left
}

// collect ends the processes and reads what they have.
func (r *rig) collect(left []string) (f facts, err error) {
	if err := r.readStreams(r.js, int(r.epoch.Load())); err != nil {
		return f, err
	}
	r.stop()
	f = facts{orders: r.ledger.orders, epoch: int(r.epoch.Load()), effects: r.effects, letters: r.letters, left: left}
	for i, w := range r.workers {
		stream, name := r.durable(i)
		s, err := readStore(w, stream+"/"+name)
		if err != nil {
			return f, err
		}
		s.Ordered = w.base.Ordered
		if w.base.Role == "sink" {
			f.sink = s
		} else {
			f.workers = append(f.workers, s)
		}
	}
	return f, f.readNeeds(r.dir)
}

// stop ends all processes and waits for them. It may be called again.
func (r *rig) stop() {
	for _, p := range r.workers {
		p.signal(syscall.SIGCONT)
		p.end()
	}
	if r.server != nil {
		r.server.signal(syscall.SIGCONT)
		defer r.running.Wait()
		defer r.server.end()
	}
	// Workers end in order while the server is there.
	deadline := time.Now().Add(15 * time.Second)
	for _, p := range r.workers {
		for p.alive() && time.Now().Before(deadline) {
			_ = pause(context.Background(), 20*time.Millisecond)
		}
		p.signal(syscall.SIGKILL)
	}
}

// makeDir makes the directory of a run.
func makeDir(o options) (string, error) {
	if o.dir == "" {
		return os.MkdirTemp("", "torture-")
	}
	return o.dir, os.MkdirAll(o.dir, 0o755)
}
