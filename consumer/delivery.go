package consumer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// stage is where a delivery is. It moves forward, except that a conflict takes it from handled back to
// running. A goroutine that changes the stage by compare-and-swap carries the delivery from then on; that
// is how a worker and the heartbeat, which both may want it, never both get it.
type stage uint32

const (
	stageQueued   stage = iota // waits for a worker; may be given back
	stageClaiming              // a worker asks the store; may be given back
	stageTaken                 // for a moment: the goroutine that took it fills it in, nobody else may look
	stagePending               // claimed; waits until it may run
	stageRunning               // the handler runs
	stageStopping              // it still runs, although its context was cancelled at Config.HandlerTimeout
	stageHandled               // the handler has returned; the outcome is on its way into the store
	stageSettling              // its dead letter is committed and not sent yet
	stageEnded                 // answered, or never to be answered
	stageWaiting               // waits for an earlier message of its ordering key or for the rate limit; then it is queued

	// The message has been answered or goes on as another delivery, and the handler of this one still runs.
	stageDeposed // it has lost its claim and may return soon
	stageZombie  // its worker was replaced
)

// delivery is one arrival of a message, from its receipt until it is answered.
type delivery struct {
	ack         jetstream.Msg
	msg         onefold.Message
	key         onefold.Key // what its outcome is stored under
	identity    onefold.Key // what it was identified as; key differs from it if it is rejected
	fingerprint onefold.Fingerprint
	reject      *rejection // not nil: it cannot run and becomes a dead letter

	order string        // name of its lane; empty: it is in no order
	lane  *lane         // guarded by the registry, as is rank
	rank  uint64        // where it stands in its lane: its position, or that of an earlier copy
	delay time.Duration // how long the server keeps it when it ends unsettled; only for its lane
	saved bool          // the store knows that it was missed; only for its lane

	redriven  bool // it is a dead letter of ours that comes again; see redriven.go
	placeless bool // it takes no place in the prefetch any more; guarded by the puller
	inLane    bool // it waits for its turn; guarded by the puller

	stage    atomic.Uint32
	received time.Duration // when it arrived, on the monotonic clock
	ran      atomic.Int64  // nanoseconds of the same clock: when its handler has started last; 0: it has not
	heard    atomic.Int64  // nanoseconds of the same clock: when the server last heard of it while it waited; 0: never

	// The heartbeat's own: when the server and the store last heard of it, and when its handler was told to stop.
	progressed, renewed, stopped time.Duration

	// Set before the stage is running; read by the heartbeat after.
	holder onefold.Holder // who asks for the claim
	claim  *onefold.Claim
	cancel context.CancelCauseFunc // ends the handler's context

	attempt   int
	history   onefold.History
	first     onefold.Effects  // of the first run, kept here to save an allocation
	fx        *onefold.Effects // of the present run
	own       onefold.Commit   // of the first try, kept here to save an allocation
	commit    *onefold.Commit  // of the present try
	outcome   onefold.Outcome  // how its key has ended
	result    result           // what a requester is answered
	class     onefold.Class    // why it became a dead letter
	cause     error
	repeated  bool           // the commit was tried before and its outcome was not known
	conflicts int            // reruns so far
	timedOut  bool           // the handler was told to stop before it returned
	counted   bool           // its start was counted, because it is a suspect
	weight    int64          // what it holds of session.room; see alone.go
	reads     []onefold.Read // of the last run
	turn      *stateKey      // what it has the turn at, or waits for; see turns.go

	followers []*delivery // guarded by the registry
}

// successor is another delivery as which the message of d goes on: somebody may still be looking at d itself.
func (d *delivery) successor() *delivery {
	x := &delivery{ack: d.ack, msg: d.msg, key: d.key, identity: d.identity, fingerprint: d.fingerprint, received: d.received,
		progressed: d.progressed, renewed: d.renewed, redriven: d.redriven}
	x.heard.Store(d.heard.Load())
	return x
}

func (d *delivery) at() stage { return stage(d.stage.Load()) }

// move changes the stage if it still is from, and reports whether it did.
func (d *delivery) move(from, to stage) bool {
	return d.stage.CompareAndSwap(uint32(from), uint32(to))
}

func (d *delivery) set(s stage) { d.stage.Store(uint32(s)) }

// since is from when on the server's patience counts for a delivery that has not started.
func (d *delivery) since() time.Duration { return max(d.received, time.Duration(d.heard.Load())) }

// seed spreads the retries of different messages.
func (d *delivery) seed() uint64 { return d.msg.Sequence }
