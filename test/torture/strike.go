package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// strike carries out one fault, and takes it back when its time is over. It reports whether there was something to
// strike: a process that is down cannot be killed.
func (r *rig) strike(ctx context.Context, s strike) (done bool, err error) {
	random := rand.New(rand.NewPCG(s.Draw, 0))
	switch s.Kind {
	case "kill":
		return r.workers[s.Target].kill(launch{}, s.Length), nil
	case "point":
		point := points[random.IntN(len(points))]
		return r.workers[s.Target].kill(launch{point: point, nth: 1 + random.Int64N(60)}, s.Length), nil
	case "disk-slow":
		return r.onDisk(ctx, s, "fdatasync:delay_enter=200000")
	case "disk-fail":
		return r.onDisk(ctx, s, fmt.Sprintf("fdatasync:error=EIO:when=%d", 5+random.IntN(60)))
	case "disk-full":
		from := 20 + random.IntN(200)
		return r.onDisk(ctx, s, fmt.Sprintf("pwrite64,fallocate,ftruncate:error=ENOSPC:when=%d..%d", from, from+random.IntN(100)))
	case "stop", "stop-long":
		return r.hold(ctx, r.workers[s.Target], s.Length), nil
	case "clock":
		return r.workers[s.Target].setWall(time.Duration(random.Int64N(int64(96*time.Hour))) - 48*time.Hour), nil
	case "server-kill":
		return r.server.kill(launch{}, s.Length), nil
	case "server-stop":
		return r.hold(ctx, r.server, s.Length), nil
	case "server-wipe":
		return r.wipe(ctx, s.Length)
	case "cut", "away", "delay", "blackhole", "half-open":
		return true, r.onLink(ctx, r.links[s.Target], s, random)
	case "delete-consumer":
		stream, name := r.durable(s.Target)
		return r.js.DeleteConsumer(ctx, stream, name) == nil, nil
	case "change-consumer":
		return r.changeConsumer(ctx, s.Target, random), nil
	}
	return false, fmt.Errorf("no such fault: %s", s.Kind)
}

// hold stops a process for a while.
func (r *rig) hold(ctx context.Context, p *process, d time.Duration) bool {
	if !p.signal(syscall.SIGSTOP) {
		return false
	}
	_ = pause(ctx, d)
	return p.signal(syscall.SIGCONT)
}

// onDisk gives a process a life with a bad disk, and then another one.
func (r *rig) onDisk(ctx context.Context, s strike, fault string) (bool, error) {
	p := r.workers[s.Target]
	if !p.kill(launch{disk: []string{fault}}, 0) {
		return false, nil
	}
	_ = pause(ctx, s.Length)
	p.kill(launch{}, 0)
	return true, nil
}

func (r *rig) onLink(ctx context.Context, l *link, s strike, random *rand.Rand) error {
	l.busy.Lock() // one fault of a link at a time
	defer l.busy.Unlock()
	var err error
	switch s.Kind {
	case "cut":
		return l.cut()
	case "away":
		l.proxy.Stop()
	case "delay":
		err = l.delay(20*time.Millisecond + time.Duration(random.Int64N(int64(300*time.Millisecond))))
	case "blackhole":
		err = l.swallow("upstream", "downstream")
	case "half-open":
		err = l.swallow([]string{"upstream", "downstream"}[random.IntN(2)])
	}
	if err == nil {
		_ = pause(ctx, s.Length)
	}
	if healed := l.heal(); err == nil {
		err = healed
	}
	return err
}

// durable is what a worker, or the sink behind them, consumes with.
func (r *rig) durable(target int) (stream, name string) {
	if target == r.options.workers {
		return effectsStream, sinkName
	}
	return ordersStream, durableOf(target)
}

func (r *rig) changeConsumer(ctx context.Context, target int, random *rand.Rand) bool {
	stream, name := r.durable(target)
	c, err := r.js.Consumer(ctx, stream, name)
	if err != nil {
		return false
	}
	config := c.CachedInfo().Config
	config.AckWait = ackWait + time.Duration(random.IntN(3))*time.Second
	config.MaxAckPending = 200 << random.IntN(6)
	_, err = r.js.UpdateConsumer(ctx, stream, config)
	return err == nil
}

// wipe ends the server and its data. What the streams hold is read before, by a server on another port: it is part of
// what must be true of every ID.
func (r *rig) wipe(ctx context.Context, down time.Duration) (bool, error) {
	r.server.mu.Lock()
	wiped := make(chan error, 1)
	r.server.between = func() { wiped <- r.saveAndWipe() }
	r.server.mu.Unlock()
	if !r.server.kill(launch{}, down) {
		r.server.mu.Lock()
		r.server.between = nil
		r.server.mu.Unlock()
		return false, nil
	}
	if err := <-wiped; err != nil {
		return true, fmt.Errorf("wipe the server: %w", err)
	}
	if err := r.server.awaitReady(ctx); err != nil {
		return true, err
	}
	return true, r.makeStreams(ctx)
}

func (r *rig) saveAndWipe() error {
	if err := r.readOffline(); err != nil {
		return err
	}
	r.epoch.Add(1)
	return os.RemoveAll(r.server.base.Dir)
}

// makeStreams makes the streams as the operator of the system does. It tries again while the server starts.
func (r *rig) makeStreams(ctx context.Context) error {
	for {
		var err error
		for name, subject := range map[string]string{ordersStream: "orders.>", effectsStream: "effects.>"} {
			if _, one := r.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{subject}, Duplicates: duplicateWindow}); one != nil {
				err = one
			}
		}
		if err == nil {
			return nil
		}
		log.Printf("streams: %v", err)
		if stopped := pause(ctx, 200*time.Millisecond); stopped != nil {
			return fmt.Errorf("make the streams: %w", err)
		}
	}
}
