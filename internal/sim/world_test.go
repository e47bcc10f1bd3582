package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/memstore"
	"github.com/onefold-go/onefold/store/storetest"
)

// world is all there is while one schedule runs: time, the server, what is stored, and the processes that are alive. One
// goroutine moves at a time.
type world struct {
	steps  []step
	setup  setup
	breaks *breakage // what is wrong on purpose; nil: nothing

	clock  *storetest.Clock // of the processes
	now    time.Duration    // true time, which no process sees
	server server
	ledger *ledger

	life    atomic.Int64 // number of the process that is alive; it grows when it dies
	booted  int          // the one whose store is open
	data    *memstore.Data
	memory  *memstore.Store
	store   *watched
	both    [2]*process // on one store
	relay   *outbox.Rehearsal
	waiters waiters

	next     int // step
	depth    int // of steps that happen inside of others
	crashAt  point
	pauseAt  point
	faults   [faultCount]bool
	lose     int // answers
	replies  []reply
	relaying bool
	open     []*delivery // whose answer may still come

	wrong   string // the first thing that must not be
	tracing bool
	trace   []string
}

// nowhere is a point that nobody gets to.
const nowhere = pointCount

// process is one consumer on the store.
type process struct {
	w         *world
	life      int
	index     int
	rehearsal *consumer.Rehearsal
	scripts   map[uint64]script // by position
	receiving bool              // it takes one message at a time
}

// script is how the handler of a delivery behaves.
type script struct {
	outcome outcome
	stays   bool
}

// delivery is one that was handed to a process.
type delivery struct {
	m      *stored
	answer func() consumer.Answer
}

func processName(i int) string { return string('A' + rune(i)) }

func newWorld(s schedule, b *breakage) *world {
	w := &world{steps: s.steps, setup: s.config(), breaks: b, clock: storetest.NewClock(), crashAt: nowhere, pauseAt: nowhere}
	w.ledger = newLedger(w.setup)
	w.data = memstore.NewData(w.clock.Clock())
	w.boot()
	return w
}

// boot starts a process on what is stored.
func (w *world) boot() {
	life := int(w.life.Load())
	w.booted, w.depth, w.relaying = life, 0, false
	w.both, w.relay, w.open = [2]*process{}, nil, nil
	memory, err := memstore.Open(w.data, &memstore.Options{Clock: w.clock.Clock(), BeforeWrite: func() { w.reach(atCommitting, life) }})
	if err != nil {
		panic(err) // the world itself is wrong
	}
	w.memory = memory
	w.store = &watched{Store: w.breaks.store(memory), w: w, life: life}
}

// process returns the first or the second process, starting it if need be.
func (w *world) process(i int) *process {
	if w.both[i] != nil {
		return w.both[i]
	}
	p := &process{w: w, life: w.booted, index: i, scripts: map[uint64]script{}}
	own := *w.store
	own.user = i
	r, err := consumer.NewRehearsal(&own, consumer.Config{
		Stream: stream, Name: name, Handler: p.handle, Observer: p.observer(), Clock: w.clock.Clock(), DeadLetterSubject: deadSubject,
		MaxAttempts: w.setup.maxAttempts, Lease: w.setup.lease, AckWait: ackWait, Retention: retention, RetryMin: retryMin, RetryMax: retryMax,
		ParkUnknown: w.setup.park,
	})
	if err != nil {
		panic(err)
	}
	p.rehearsal, w.both[i] = r, p
	return p
}

// observer is where the process can be stopped or die.
func (p *process) observer() *onefold.Observer {
	at := func(at point) func(onefold.DeliveryEvent) {
		return func(e onefold.DeliveryEvent) {
			p.w.note("    %s: message %d %v", processName(p.index), e.Sequence, at)
			p.w.reach(at, p.life)
		}
	}
	return &onefold.Observer{
		Received: func(e onefold.DeliveryEvent) {
			p.receiving = true
			at(atReceived)(e)
			p.receiving = false
		},
		Claimed: at(atClaimed), Handled: at(atHandled), Committed: at(atCommitted),
		Acked: func(e onefold.DeliveryEvent) {
			p.w.alive(p.life)
			p.acked(e)
			if e.Outcome == onefold.Succeeded {
				at(atAcked)(e)
				return
			}
			// A dead letter has left. Its message is acked while the relay goes on: nothing can happen meanwhile but the end.
			if p.w.crashAt == atAcked {
				at(atAcked)(e)
			}
		},
		Duplicate: func(e onefold.DeliveryEvent) {
			p.w.alive(p.life)
			p.acked(e)
		},
	}
}

// acked judges an ack at the moment that it is sent.
func (p *process) acked(e onefold.DeliveryEvent) {
	p.w.note("    %s: acks message %d", processName(p.index), e.Sequence)
	p.w.judge(p.w.ledger.mayBeAcked(p.w.server.messages[e.Sequence-1], &p.w.server.target))
}

const countTable = "count"

var errHandler = errors.New("it does not work")

// handle counts the message and asks for two effects, one of them in the order of its counter.
func (p *process) handle(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
	w := p.w
	w.alive(p.life)
	w.note("    %s: runs %v, attempt %d, token %x", processName(p.index), fx.Key(), fx.Attempt(), fx.Token())
	w.judge(w.ledger.runs(fx))
	id := fx.Key().ID
	counter := "odd"
	if len(id) > 0 && id[0]%2 == 0 {
		counter = "even"
	}
	value, _, err := fx.Get(ctx, countTable, counter)
	if err != nil {
		return err
	}
	s := p.scripts[msg.Sequence]
	p.scripts[msg.Sequence] = script{outcome: s.outcome}
	if s.stays {
		w.inside()
	}
	w.breaks.handler(w)
	n, _ := strconv.Atoi(string(value))
	fx.Put(countTable, counter, strconv.AppendInt(nil, int64(n+1), 10))
	fx.Emit(onefold.Effect{Target: outSubject, Payload: fmt.Appendf(nil, "%v first", fx.Key()), OrderKey: counter})
	fx.Publish(outSubject, fmt.Appendf(nil, "%v second", fx.Key()))
	err = s.outcome.err()
	if err != nil {
		w.ledger.of(fx.Key()).unknown = false // the handler has said how it ended
	}
	return err
}

func (o outcome) err() error {
	switch o {
	case fails:
		return errHandler
	case failsForGood:
		return onefold.Permanent(errHandler)
	case asksForTime:
		return onefold.RetryAfter(20*time.Second, errHandler)
	case panics:
		panic(errHandler)
	}
	return nil
}

// counted compares the counters with what was committed.
func (w *world) counted(ctx context.Context, st onefold.Store) string {
	for counter, want := range w.ledger.counts {
		v, err := st.Read(ctx, countTable, counter)
		if got, _ := strconv.Atoi(string(v.Data)); err != nil || got != want {
			return fmt.Sprintf("%d successes were committed to the counter %q, and it stands at %q (%v)", want, counter, v.Data, err)
		}
	}
	return ""
}

// alive ends the goroutine if its process has died.
func (w *world) alive(life int) {
	if w.life.Load() != int64(life) {
		runtime.Goexit()
	}
}

// reach is called where something else can happen.
func (w *world) reach(p point, life int) {
	w.alive(life)
	switch p {
	case w.crashAt:
		w.kill()
		runtime.Goexit()
	case w.pauseAt:
		w.pauseAt = nowhere
		w.inside()
		w.alive(life)
	}
}

// kill lets the process die. What it has answered until now may have been sent.
func (w *world) kill() {
	w.note("    the process dies")
	w.life.Add(1)
	w.data.Crash()
	w.poll()
	w.open = nil
	w.ledger.died()
	w.crashAt, w.pauseAt, w.faults = nowhere, nowhere, [faultCount]bool{}
}

// revive starts a process if the last one has died. What is left of that one ends first.
func (w *world) revive() {
	if int(w.life.Load()) == w.booted {
		return
	}
	w.quiet()
	for _, p := range w.both {
		if p != nil {
			p.rehearsal.Close()
		}
	}
	w.open = nil
	w.clock.NewProcess()
	w.boot()
	w.note("    a process starts")
}

// restart stops the process in order and starts another.
func (w *world) restart() {
	ctx := context.Background()
	w.quiet()
	if w.relay != nil {
		_ = w.relay.Close()
	}
	for _, p := range w.both {
		if p != nil {
			p.rehearsal.Close()
		}
	}
	w.poll()
	if err := w.memory.Close(ctx); err != nil {
		panic(err)
	}
	w.life.Add(1)
	w.ledger.died()
	w.both = [2]*process{}
	w.revive()
}

// quiet waits until nothing moves, letting those go on that have waited for a dead letter, and takes the answers.
func (w *world) quiet() {
	synctest.Wait()
	for turn := w.waiters.next(); turn != nil; turn = w.waiters.next() {
		close(turn)
		synctest.Wait()
	}
	w.poll()
}

// poll lets answers arrive at the server, or not.
func (w *world) poll() {
	w.open = slices.DeleteFunc(w.open, func(d *delivery) bool { return w.arrives(d) })
}

// arrives reports whether a delivery is answered.
func (w *world) arrives(d *delivery) bool {
	a := d.answer()
	if a == (consumer.Answer{}) {
		return false
	}
	if a.Acked {
		w.judge(w.ledger.mayBeAcked(d.m, &w.server.target))
	}
	if w.lose > 0 {
		w.lose--
		w.note("    the answer to message %d is lost", d.m.seq)
		return true
	}
	w.server.answer(d.m, a, w.now)
	return true
}

// takes reports whether a fault is due, and uses it up.
func (w *world) takes(f fault) bool {
	due := w.faults[f]
	if due {
		w.faults[f] = false
		w.note("    %s", faultNames[f])
	}
	return due
}

// judge keeps the first thing that is wrong. After it nothing more happens.
func (w *world) judge(wrong string) {
	if wrong != "" && w.wrong == "" {
		w.wrong = wrong
		w.note("    WRONG: %s", wrong)
	}
}

func (w *world) note(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf(format, args...))
	}
}
