package consumer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
)

// puller keeps as many messages asked for as the prefetch says. It asks in windows: one Consume call that
// ends by itself after as many messages as it asked for, so that the size can change with each window and
// nothing waits unseen in the client's own buffer: what arrives is taken at once.
type puller struct {
	consumer  jetstream.Consumer
	connected func() bool
	arrive    func(jetstream.Msg) // must not block
	trouble   func(error)
	clock     onefold.Clock

	wake chan struct{} // holds a token when run has something to look at

	open map[*window]struct{} // run's own

	limiter *rate.Limiter // nil: none
	single  bool          // one window at a time: what two bring would overtake each other on the way here
	away    away

	mu      sync.Mutex
	fetch   prefetch
	asked   int  // asked for and not arrived
	held    int  // arrived, not ended, and not only waiting
	bytes   int  // of what is held
	paused  bool // ask for nothing; guarded by mu
	closing bool // close what is open
	ended   int  // since measured
	since   time.Duration
}

// window is one Consume call.
type window struct {
	left int                      // messages still to come; guarded by the puller
	stop jetstream.ConsumeContext // run's own
}

func newPuller(c jetstream.Consumer, connected func() bool, f prefetch, clock onefold.Clock, arrive func(jetstream.Msg), trouble func(error)) *puller {
	return &puller{consumer: c, connected: connected, arrive: arrive, trouble: trouble, clock: clock, fetch: f,
		wake: make(chan struct{}, 1), open: make(map[*window]struct{}), since: clock.Mono()}
}

// run opens windows until ctx ends, then closes what is open and waits for it.
func (p *puller) run(ctx context.Context) {
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0))
	p.look()
	for {
		select {
		case <-ctx.Done():
			p.closeOpen()
			return
		case <-p.wake:
		}
		if p.wantsClose() {
			p.closeOpen()
		}
		var err error
		if !p.single || p.spent(ctx) {
			err = p.refill()
		}
		p.forgetEnded()
		if err == nil {
			retry.Reset()
			continue
		}
		p.trouble(err)
		if pace.Sleep(ctx, retry.NextBackOff()) {
			p.look()
		}
	}
}

// look wakes run.
func (p *puller) look() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// refill opens a window for what is missing.
func (p *puller) refill() error {
	p.mu.Lock()
	n := 0
	if p.limiter != nil {
		p.fetch.allowance = rateAllowance(p.limiter.Tokens(), p.limiter.Limit(), p.fetch.ackWait)
	}
	if !p.paused {
		n = p.fetch.missing(p.asked, p.held, p.bytes)
	}
	if n == 0 {
		p.mu.Unlock()
		return nil
	}
	p.learn()
	n = max(n, p.fetch.missing(p.asked, p.held, p.bytes))
	w := &window{left: n}
	p.asked += n
	p.mu.Unlock()

	var err error
	w.stop, err = p.consumer.Consume(func(m jetstream.Msg) { p.arrived(w, m) },
		jetstream.PullMaxMessages(n), jetstream.StopAfter(n), jetstream.PullHeartbeat(pullHeartbeat), jetstream.ConsumeErrHandler(
			func(_ jetstream.ConsumeContext, err error) { p.trouble(err) }))
	if err != nil {
		p.mu.Lock()
		p.asked -= w.left
		p.mu.Unlock()
		return err
	}
	p.open[w] = struct{}{}
	return nil
}

// pullHeartbeat is how often the server tells that it still knows of a pull. After twice this time without
// a word the client asks anew; after a restart of the server that is how long messages may wait.
const pullHeartbeat = 2 * time.Second

// forgetEnded lets go of the windows that have ended by themselves, once none of their messages is on its
// way to us any more.
func (p *puller) forgetEnded() {
	for w := range p.open {
		select {
		case <-w.stop.Closed():
			delete(p.open, w)
			p.giveUp(w)
		default:
		}
	}
}

// spent reports whether every window has brought all that it was for, and the last of it has been taken.
func (p *puller) spent(ctx context.Context) bool {
	for w := range p.open {
		p.mu.Lock()
		left := w.left
		p.mu.Unlock()
		if left > 0 {
			break
		}
		select {
		case <-w.stop.Closed(): // it is about to
		case <-ctx.Done():
			return false
		}
	}
	p.forgetEnded()
	return len(p.open) == 0
}

// giveUp expects no more messages of w.
func (p *puller) giveUp(w *window) {
	p.mu.Lock()
	p.asked -= w.left
	w.left = 0
	p.mu.Unlock()
}

// learn folds what ended since the last refill into the rate and grows the target. The caller holds mu.
func (p *puller) learn() {
	now := p.clock.Mono()
	if took := now - p.since; took > 0 && p.ended >= p.fetch.telling() {
		p.fetch.rate = smoothed(p.fetch.rate, float64(p.ended)/took.Seconds())
		p.since, p.ended = now, 0
	}
	p.fetch.target = p.fetch.grown()
}

// arrived takes one message of a window.
func (p *puller) arrived(w *window, m jetstream.Msg) {
	p.mu.Lock()
	p.held++
	if w.left > 0 { // a client that has asked twice may get more than the window is for
		w.left--
		p.asked--
	}
	p.bytes += len(m.Data())
	p.fetch = p.fetch.sized(len(m.Data()))
	// More was asked for than fits, by what was known of sizes then: take the rest back.
	over := p.bytes > maxPrefetchBytes && p.asked > 0 && !p.closing
	p.closing = p.closing || over
	last := p.single && w.left == 0
	p.mu.Unlock()
	if over || last {
		p.look()
	}
	p.arrive(m)
}

// end says that d is held no more.
func (p *puller) end(d *delivery) {
	p.mu.Lock()
	p.endWait(d)
	p.giveUpPlace(d)
	p.fetch.slots.resting--
	p.bytes -= len(d.ack.Data())
	p.ended++
	p.unlockAndLook()
}

// displace says that d only waits from now on, for another copy or for the relay: it is held, and its bytes
// count, but others may be asked for in its place.
func (p *puller) displace(d *delivery) {
	p.mu.Lock()
	p.giveUpPlace(d)
	p.unlockAndLook()
}

// wait says that d waits for its turn: it takes no place until it proceeds.
func (p *puller) wait(d *delivery) {
	p.mu.Lock()
	d.inLane = true
	p.fetch.waiting++
	p.giveUpPlace(d)
	p.unlockAndLook()
}

// proceed gives d its place again.
func (p *puller) proceed(d *delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endWait(d)
	if d.placeless {
		d.placeless = false
		p.held++
		p.fetch.slots.resting--
	}
}

// endWait says that d does not wait for its turn any more. The caller holds mu.
func (p *puller) endWait(d *delivery) {
	if d.inLane {
		d.inLane = false
		p.fetch.waiting--
	}
}

// giveUpPlace frees the place of d, once. The caller holds mu.
func (p *puller) giveUpPlace(d *delivery) {
	if !d.placeless {
		d.placeless = true
		p.held--
		p.fetch.slots.resting++
	}
}

// unlockAndLook releases mu and wakes run if there is something to ask for.
func (p *puller) unlockAndLook() {
	wanted := !p.paused && p.fetch.missing(p.asked, p.held, p.bytes) > 0
	p.mu.Unlock()
	if wanted {
		p.look()
	}
}

// shrink asks for less from now on: messages had to be given back unstarted. What is asked for already is
// taken back, or what was given back would return here at once.
func (p *puller) shrink() {
	p.mu.Lock()
	p.fetch.target = p.fetch.shrunk()
	p.fetch.rate = 0
	p.since, p.ended = p.clock.Mono(), 0
	p.closing = true
	p.mu.Unlock()
	p.look()
}

// pause stops asking while on is true, and takes back what is asked for.
func (p *puller) pause(on bool) {
	p.mu.Lock()
	changed := p.paused != on
	p.paused = on
	p.closing = p.closing || (on && changed)
	p.mu.Unlock()
	if changed {
		p.look()
	}
}

func (p *puller) wantsClose() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing
}

// closeOpen drains every open window: what the server has sent still arrives.
func (p *puller) closeOpen() {
	p.mu.Lock()
	p.closing = false
	p.mu.Unlock()
	for w := range p.open {
		if p.connected() {
			w.stop.Drain()
		} else {
			w.stop.Stop() // a drain would wait long for a server that is away, and nothing can arrive anyway
		}
	}
	patience := time.NewTimer(drainTimeout)
	defer patience.Stop()
	for w := range p.open {
		select {
		case <-w.stop.Closed():
		case <-patience.C:
			patience.Reset(0)
		}
		p.giveUp(w)
	}
	clear(p.open)
}

// drainTimeout bounds the closing of windows.
const drainTimeout = 2 * time.Second

// fatalPullError reports whether err ends the session.
func fatalPullError(err error) bool {
	return errors.Is(err, jetstream.ErrConnectionClosed) || errors.Is(err, nats.ErrConnectionClosed) ||
		errors.Is(err, jetstream.ErrBadRequest) || vanished(err)
}
