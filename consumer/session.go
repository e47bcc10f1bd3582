package consumer

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

// session is one stretch of Run on one durable: the goroutines, what they share, and who ends whom.
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
	made      time.Time            // when the durable was made
	announce  func()               // asks again who else serves the durable
	listening []*nats.Subscription // see askPresence

	scope    []*onefold.Claim // see holdScope
	process  uint64           // with attempts: who holds a claim
	attempts atomic.Uint64    // of claims
	draining atomic.Bool      // shutting down: give back what arrives
	errors   atomic.Int64     // of the pulls, since the server last answered
	failed   chan error       // the first reason that ends the session
	trouble  trouble
	stops    stops
	zombies  zombies
	deposed  []deposed // the heartbeat's own
	turns    turns
	suspects suspicion
	outlived outlived
	wary     atomic.Bool // runs take room, so that a suspect can run alone
	room     *semaphore.Weighted
	permit   atomic.Pointer[onefold.Claim] // of the run that is alone
	noisy    bool                          // the relay never had nothing in hand; belongs to that run

	handlers context.Context // ends running handlers
	starts   context.Context // ends waiting for the rate limit and for room to run
	ops      context.Context // ends calls of the store
	waits    context.Context // ends waiting for dead letters to be sent

	workers, committers, background sync.WaitGroup
}

// committerCount lets one commit while the other acks.
const committerCount = 2

// open finds or makes what the session needs on the server and in the store.
func (c *Consumer) open(ctx context.Context, state *status) (*session, error) {
	stream, err := c.js.Stream(ctx, c.cfg.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w; create it first, or correct Config.Stream", err)
	}
	if err != nil {
		return nil, fmt.Errorf("look up the stream: %w", err)
	}
	s := newSession(c.cfg, c.st, state, int(c.js.Conn().MaxPayload()))
	s.js = c.js
	if need := s.limits.MaxPayload + 2*onefold.MaxHeaderBytes; s.limits.MaxEntry > 0 && s.limits.MaxEntry < need {
		return nil, fmt.Errorf("%w: the store's MaxEntry is %d and the server's max_payload %d: a dead letter could not be stored; raise MaxEntry to %d",
			onefold.ErrInvalid, s.limits.MaxEntry, s.limits.MaxPayload, need)
	}
	if err = s.settleIn(ctx, stream); err != nil {
		s.leave(ctx)
		return nil, err
	}
	at, f := s.consumer.CachedInfo(), s.floor.Load()
	found, own := at.Config, c.st.Info()
	s.beat = heartbeatRule{ackWait: found.AckWait, lease: s.cfg.Lease}
	if err = s.suspect(ctx, opening{clean: own.Clean, epoch: own.Epoch, created: f.Created, last: stream.CachedInfo().State.LastSeq,
		floor: f.At.Sequence, seen: f.Seen, delivered: at.Delivered.Stream, pending: found.MaxAckPending}); err != nil {
		s.leave(ctx)
		return nil, fmt.Errorf("decide which messages are suspects: %w", err)
	}
	s.pull = newPuller(s.consumer, c.js.Conn().IsConnected, startPrefetch(s.cfg.Concurrency, pullLimit(found), found.AckWait), s.clock, s.receive, s.pullTrouble)
	s.pull.fetch.slots.max, s.pull.limiter = max(found.MaxAckPending, 0), s.cfg.RateLimit
	if err = s.openOrder(ctx); err != nil {
		s.leave(ctx)
		return nil, err
	}
	return s, nil
}

// newSession makes the part of a session that needs no server.
func newSession(cfg Config, st onefold.Store, state *status, maxPayload int) *session {
	s := &session{cfg: cfg, st: st, status: state, obs: *cfg.Observer, clock: cfg.Clock,
		rule:    retryRule{maxAttempts: cfg.MaxAttempts, min: cfg.RetryMin, max: cfg.RetryMax, timeout: cfg.HandlerTimeout},
		overrun: overrunRule{timeout: cfg.HandlerTimeout}, room: semaphore.NewWeighted(room),
		reg: newRegistry(), work: newFifo[*delivery](cfg.Concurrency), commits: newFifo[*delivery](committerCount), failed: make(chan error, 1)}
	own := st.Info()
	s.storeKind = own.Kind
	s.limits = onefold.Limits{MaxPayload: maxPayload, MaxEntry: own.MaxEntry}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails since Go 1.24
	s.process = binary.LittleEndian.Uint64(random[:])
	return s
}

// settleIn makes sure that nobody else serves the durable, that store, durable and stream of dead letters fit
// together, and that the store knows where the session began.
func (s *session) settleIn(ctx context.Context, stream jetstream.Stream) error {
	if err := s.holdScope(ctx); err != nil {
		return err
	}
	if err := s.askPresence(ctx); err != nil {
		return err
	}
	info := stream.CachedInfo()
	stored, err := s.loadFloor(ctx)
	if err != nil {
		return fmt.Errorf("read the floor: %w", err)
	}
	if err := ensureDeadLetters(ctx, s.js, s.cfg, info.Config.Replicas); err != nil {
		return err
	}
	f, err := s.ensureConsumer(ctx, stored, stream)
	if err != nil {
		return err
	}
	guarantee := dedupe.Assess(setupOf(s.cfg, s.consumer.CachedInfo().Config, info.Config, s.st.Info()))
	if err := guarantee.Err(); err != nil {
		return err
	}
	s.tellWeak(guarantee)
	if lost := stored.lost(info.Created.UnixNano(), info.State.LastSeq); lost != "" {
		s.warn(lost)
	}
	// A durable that is lost before anything is settled has to be made again where this one began.
	if !bytes.Equal(f.encode(), stored.encode()) {
		if err := s.storeFloor(ctx, f); err != nil {
			return fmt.Errorf("store the floor: %w", err)
		}
	}
	s.floor.Store(&f)
	return nil
}

// leave gives up what keeps others from serving the durable.
func (s *session) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	s.leavePresence()
	s.releaseScope(ctx)
}

// run starts the goroutines, waits for the end, and ends them in the order of a message's life.
func (s *session) run(ctx context.Context) error {
	values := context.WithoutCancel(ctx)
	var endHandlers, endOps, endWaits context.CancelFunc
	s.handlers, endHandlers = context.WithCancel(values)
	s.ops, endOps = context.WithCancel(values)
	s.waits, endWaits = context.WithCancel(values)
	pulling, endPulling := context.WithCancel(values)
	keeping, endKeeping := context.WithCancel(values)
	var endStarts context.CancelFunc
	s.starts, endStarts = context.WithCancel(values)
	defer func() {
		endStarts()
		endHandlers()
		endOps()
		endWaits()
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
	s.startKeepers(keeping, &keepers)
	pullers.Go(func() { s.pull.run(pulling) })

	var cause error
	select {
	case <-ctx.Done():
	case cause = <-s.failed:
	}

	s.become(StateDraining, cause)
	s.draining.Store(true)
	endPulling()
	endStarts()
	pullers.Wait()
	late := s.endWork(!vanished(cause), endHandlers, endOps)
	endWaits()
	s.background.Wait()
	flushed := s.flush(values)
	endKeeping()
	keepers.Wait()
	s.lastWords(values, flushed && late == nil, !vanished(cause))
	return errors.Join(cause, late)
}

// startKeepers starts what goes on beside the messages, until ctx ends.
func (s *session) startKeepers(ctx context.Context, keepers *sync.WaitGroup) {
	keepers.Go(func() { s.keepAlive(ctx) })
	keepers.Go(func() { s.watchFloor(ctx) })
	keepers.Go(func() { s.keepScope(ctx) })
	keepers.Go(func() { s.probeStore(ctx) })
	s.become(why(s.stops.set.Load()).state(), nil)
	keepers.Go(func() { s.watchConnection(ctx) })
	if s.reg.lanes != nil {
		keepers.Go(func() { s.watchLanes(ctx) })
	}
	if s.cfg.RelayWithin > 0 {
		keepers.Go(func() { s.watchRelay(ctx) })
	}
}

// lastWords leaves behind what the next session on this store and this durable wants to know.
func (s *session) lastWords(values context.Context, answered, there bool) {
	ctx, cancel := context.WithTimeout(values, lastTimeout)
	defer cancel()
	if s.reg.lanes != nil {
		s.endOrder(ctx, answered)
	}
	if there {
		s.noteBinding(ctx)
	}
	s.leave(values)
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
