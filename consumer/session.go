package consumer

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

// session is one call of Run: the goroutines, what they share, and who ends whom.
type session struct {
	cfg       Config // effective
	st        onefold.Store
	js        jetstream.JetStream
	consumer  jetstream.Consumer
	obs       onefold.Observer
	clock     onefold.Clock
	rule      retryRule
	beat      heartbeatRule
	overrun   overrunRule
	limits    onefold.Limits
	storeKind string

	reg     *registry
	pull    *puller
	work    *fifo[*delivery] // from receive and from conflicts to the workers
	commits *fifo[*delivery] // from the workers to the committers
	floor   atomic.Pointer[floor]

	*status
	scope    []*onefold.Claim // see holdScope
	process  uint64           // with attempts: who holds a claim
	attempts atomic.Uint64    // of claims
	draining atomic.Bool      // shutting down: give back what arrives
	errors   atomic.Int64     // of the pulls, since the server last answered
	failed   chan error       // the first reason that ends the session
	trouble  trouble
	zombies  zombies
	suspects suspicion
	wary     bool // runs take room, so that a suspect can run alone
	room     *semaphore.Weighted
	deposed  []deposed // the heartbeat's own

	handlers context.Context // ends running handlers
	admits   context.Context // ends waiting for room to run
	ops      context.Context // ends calls of the store
	waits    context.Context // ends waiting for dead letters to be sent

	workers, committers, background sync.WaitGroup
}

// committerCount lets one commit while the other acks.
const committerCount = 2

// open finds or makes what the session needs on the server and in the store.
func (c *Consumer) open(ctx context.Context, state *status) (*session, error) {
	cfg := c.cfg
	stream, err := c.js.Stream(ctx, cfg.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w; create it first, or correct Config.Stream", err)
	}
	if err != nil {
		return nil, fmt.Errorf("look up the stream: %w", err)
	}
	info := stream.CachedInfo()
	s := &session{cfg: cfg, st: c.st, js: c.js, status: state, obs: *cfg.Observer, clock: cfg.Clock,
		rule: retryRule{maxAttempts: cfg.MaxAttempts, min: cfg.RetryMin, max: cfg.RetryMax, timeout: cfg.HandlerTimeout},
		reg:  newRegistry(), work: newFifo[*delivery](cfg.Concurrency), commits: newFifo[*delivery](committerCount), failed: make(chan error, 1), room: semaphore.NewWeighted(room)}
	own := c.st.Info()
	s.storeKind = own.Kind
	s.limits = onefold.Limits{MaxPayload: int(c.js.Conn().MaxPayload()), MaxEntry: own.MaxEntry}
	if need := s.limits.MaxPayload + 2*onefold.MaxHeaderBytes; s.limits.MaxEntry > 0 && s.limits.MaxEntry < need {
		return nil, fmt.Errorf("%w: the store's MaxEntry is %d and the server's max_payload %d: a dead letter could not be stored; raise MaxEntry to %d",
			onefold.ErrInvalid, s.limits.MaxEntry, s.limits.MaxPayload, need)
	}
	stored, err := s.loadFloor(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the floor: %w", err)
	}
	if err := ensureDeadLetters(ctx, c.js, cfg, info.Config.Replicas); err != nil {
		return nil, err
	}
	var f floor
	if s.consumer, f, err = ensureConsumer(ctx, c.js, cfg, stored, info); err != nil {
		return nil, err
	}
	s.floor.Store(&f)
	at := s.consumer.CachedInfo()
	found := at.Config
	s.beat = heartbeatRule{ackWait: found.AckWait, lease: cfg.Lease}
	s.overrun = overrunRule{timeout: cfg.HandlerTimeout}
	guarantee := dedupe.Assess(setupOf(cfg, found, info.Config, own))
	if err := guarantee.Err(); err != nil {
		return nil, err
	}
	s.tellWeak(guarantee)
	if err := s.suspect(ctx, opening{clean: own.Clean, epoch: own.Epoch, created: f.Created, last: info.State.LastSeq,
		floor: f.At.Sequence, seen: f.Seen, delivered: at.Delivered.Stream, pending: found.MaxAckPending}); err != nil {
		return nil, fmt.Errorf("decide which messages are suspects: %w", err)
	}
	s.pull = newPuller(s.consumer, c.js.Conn().IsConnected, startPrefetch(cfg.Concurrency, pullLimit(found), found.AckWait), s.clock, s.receive, s.pullTrouble)
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails since Go 1.24
	s.process = binary.LittleEndian.Uint64(random[:])
	if err = s.holdScope(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// run starts the goroutines, waits for the end, and ends them in the order of a message's life.
func (s *session) run(ctx context.Context) error {
	values := context.WithoutCancel(ctx)
	var endHandlers, endOps, endWaits context.CancelFunc
	s.handlers, endHandlers = context.WithCancel(values)
	s.ops, endOps = context.WithCancel(values)
	s.waits, endWaits = context.WithCancel(values)
	var endAdmission context.CancelFunc
	s.admits, endAdmission = context.WithCancel(values)
	pulling, endPulling := context.WithCancel(values)
	keeping, endKeeping := context.WithCancel(values)
	defer func() {
		endHandlers()
		endOps()
		endWaits()
		endAdmission()
		endPulling()
		endKeeping()
	}()

	for range s.cfg.Concurrency {
		s.workers.Add(1)
		go s.worker(nil)
	}
	for range committerCount {
		s.committers.Go(s.committer)
	}
	var pullers, keepers sync.WaitGroup
	keepers.Go(func() { s.keepAlive(keeping) })
	keepers.Go(func() { s.watchFloor(keeping) })
	keepers.Go(func() { s.keepScope(keeping) })
	keepers.Go(func() { s.probeStore(keeping) })
	pullers.Go(func() { s.pull.run(pulling) })
	s.become(StateRunning, nil)

	var cause error
	select {
	case <-ctx.Done():
	case cause = <-s.failed:
	}

	s.become(StateDraining, cause)
	s.draining.Store(true)
	endAdmission()
	endPulling()
	pullers.Wait()
	late := s.endWork(endHandlers, endOps)
	endWaits()
	s.background.Wait()
	s.flush(values)
	endKeeping()
	keepers.Wait()
	last, cancel := context.WithTimeout(values, lastTimeout)
	defer cancel()
	s.releaseScope(last)
	s.become(StateStopped, cause)
	return errors.Join(cause, late)
}

// holder names one attempt to claim.
func (s *session) holder() onefold.Holder {
	return onefold.Holder{Process: s.process, Attempt: s.attempts.Add(1)}
}

// fail ends the session; the first reason counts.
func (s *session) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// pullTrouble sorts what the client reports of its pulls.
func (s *session) pullTrouble(err error) {
	s.errors.Add(1)
	if fatalPullError(err) {
		s.fail(err)
	}
}

// event describes d to the observer.
func (s *session) event(d *delivery) onefold.DeliveryEvent {
	e := onefold.DeliveryEvent{At: s.clock.Wall(), Stream: s.cfg.Stream, Consumer: s.cfg.Name,
		Subject: d.msg.Subject, Sequence: d.msg.Sequence, Key: d.key, Attempt: d.attempt}
	if d.claim != nil {
		e.Token = d.claim.Token
	}
	e.Outcome, e.Class, e.Err = d.outcome, d.class, d.cause
	return e
}
