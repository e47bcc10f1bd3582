package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/outbox"
)

// play runs a schedule, heals everything, lets all arrive, and says what was wrong, or "".
func play(s schedule, b *breakage) string {
	return run(s, b, false).wrong
}

// run is play with what is left of the world. It must be called inside a bubble of testing/synctest.
func run(s schedule, b *breakage, tracing bool) *world {
	w := newWorld(s, b)
	w.tracing = tracing
	for w.next < len(w.steps) && w.wrong == "" {
		one := w.steps[w.next]
		w.next++
		if one.moves() {
			aside(func() { w.do(one) })
			w.quiet()
		} else {
			w.do(one)
		}
		w.revive()
	}
	if w.wrong == "" {
		w.heal()
	}
	w.close()
	return w
}

// close ends all goroutines of the world.
func (w *world) close() {
	w.quiet()
	w.data.Crash()
	w.life.Add(1)
	w.quiet()
	for _, p := range w.both {
		if p != nil {
			p.rehearsal.Close()
		}
	}
}

// patience is how long, by the time of the bubble, a step may take. It takes none, except where the code under test
// pauses before it tries again.
const patience = time.Hour

// aside runs f in a goroutine of its own, because it may die on the way.
func aside(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		stacks := make([]byte, 1<<16)
		panic(fmt.Sprintf("a step does not end: something waits for ever\n%s", stacks[:runtime.Stack(stacks, true)]))
	}
}

// maxDepth bounds how many things are under way at once.
const maxDepth = 4

// inside takes the steps that happen while something else stands still, until one says return.
func (w *world) inside() {
	if w.depth == maxDepth || w.next >= len(w.steps) {
		return
	}
	w.depth++
	life := int(w.life.Load())
	w.note("    meanwhile:")
	for w.next < len(w.steps) && w.wrong == "" {
		one := w.steps[w.next]
		w.next++
		if one.op == opReturn {
			break
		}
		w.do(one)
		w.alive(life)
	}
	w.note("    it goes on")
	w.depth--
}

// moves reports whether the step makes a process do something, which may be the last that it does.
func (s step) moves() bool {
	switch s.op {
	case opDeliver, opRelay, opFetch, opFinish, opMoveFloor:
		return true
	}
	return false
}

// do takes one step.
func (w *world) do(s step) {
	if w.tracing {
		w.note("%s%s", strings.Repeat("  ", w.depth), s)
	}
	switch s.op {
	case opPublish:
		w.publish(s)
	case opCopy:
		if n := len(w.server.messages); n > 0 {
			m := w.server.messages[int(s.a)%n]
			w.server.publish(m.msg, m.key, w.clock.Wall())
		}
	case opDeliver:
		w.deliverDue(s)
	case opTime:
		w.pass(s.time())
	case opWall:
		w.clock.StepWall(s.wall())
	case opPause:
		w.pauseAt = s.point()
	case opCrashAt:
		w.crashAt = s.point()
	case opCrash:
		w.kill()
	case opFault:
		w.faults[s.fault()] = true
	case opLoseAnswers:
		w.lose = 1 + int(s.a%3)
	case opServerRestart:
		w.server.forget(1+int(s.a%4), w.now)
	case opRelay, opFetch, opFinish:
		w.relays(s)
	case opRestart:
		if w.depth == 0 {
			w.restart()
		}
	case opRedrive:
		w.redrive(int(s.a))
	case opMoveFloor:
		w.moveFloor()
	}
}

func (w *world) pass(d time.Duration) {
	w.now += d
	w.clock.Advance(d)
}

func (w *world) publish(s step) {
	key, header := onefold.Key{}, onefold.Header{}
	if id := s.id(); id != "" {
		key = onefold.Key{Scope: scope, ID: id}
		header[onefold.HeaderID] = []string{id}
	}
	w.server.publish(onefold.Message{Subject: subject, Header: header, Data: []byte(s.payload())}, key, w.clock.Wall())
}

// deliverDue hands out one of the messages that are due.
func (w *world) deliverDue(s step) {
	due := w.server.due(w.now)
	if len(due) > 0 {
		w.deliver(due[s.which()%min(len(due), 4)], s.process(), script{s.outcome(), s.stays()})
	}
}

// deliver hands m to a process. One that is just taking a message cannot take another: then it goes to the other one.
func (w *world) deliver(m *stored, to int, s script) {
	p := w.process(to)
	if p.receiving {
		if p = w.process(1 - to); p.receiving {
			return
		}
	}
	w.note("    message %d (%v) goes to %s", m.seq, m.key, processName(p.index))
	p.scripts[m.seq] = s
	answer := p.rehearsal.Deliver(w.server.handOut(m, w.now))
	d := &delivery{m, answer}
	if int(w.life.Load()) != p.life {
		w.arrives(d) // it has answered before it died, or not
		return
	}
	w.open = append(w.open, d)
	w.quiet()
}

func (w *world) moveFloor() {
	for _, p := range w.both {
		if p != nil {
			// What cannot be stored leaves the floor where it is.
			_ = p.rehearsal.MoveFloor(context.Background(), w.server.ackFloor())
		}
	}
}

// redrive publishes a dead letter's message again as the next generation, as consumer.DeadLetters does.
func (w *world) redrive(n int) {
	dead := w.server.target.dead
	if len(dead) == 0 {
		return
	}
	letter := dead[n%len(dead)].msg
	id := letter.Header.Get(consumer.HeaderDeadID)
	if id == "" {
		return
	}
	key := onefold.Key{Scope: scope, ID: id, Gen: genOf(letter.Header.Get(consumer.HeaderDeadGen)) + 1}
	header := onefold.Header{
		onefold.HeaderID:              {id},
		consumer.HeaderRedriveFor:     {scope},
		consumer.HeaderRedriveScope:   {scope},
		consumer.HeaderRedriveID:      {id},
		consumer.HeaderRedriveGen:     {formatUint(uint64(key.Gen))},
		consumer.HeaderRedriveOrigin:  {letter.Header.Get(consumer.HeaderDeadSequence) + "/0"},
		consumer.HeaderRedriveHistory: {"{}"},
	}
	w.server.publish(onefold.Message{Subject: subject, Header: header, Data: letter.Data}, key, w.clock.Wall())
}

// relays takes a step of the relay, unless it stands still inside of another one.
func (w *world) relays(s step) {
	if w.relaying {
		return
	}
	w.relaying = true
	if s.op != opFinish {
		w.fetch(s.rows(), s.replies())
	}
	if s.op != opFetch {
		w.finish()
	}
	w.relaying = false
}

// fetch has the relay take rows and publish them, and returns how many.
func (w *world) fetch(rows int, replies []reply) int {
	if w.relay == nil {
		w.newRelay()
	}
	w.replies = replies
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond) // of the bubble
	defer cancel()
	n, err := w.relay.Fetch(ctx, rows)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) { // nothing is due
		w.note("    relay: %v", err)
	}
	return n
}

func (w *world) finish() {
	if w.relay == nil {
		return
	}
	if err := w.relay.Finish(context.Background()); err != nil {
		w.note("    relay: %v", err)
	}
}

func (w *world) newRelay() {
	life := w.booted
	at := func(p point) func(onefold.RowEvent) {
		return func(e onefold.RowEvent) {
			w.note("    relay: %v %s to %s", p, e.ID, e.Target)
			w.reach(p, life)
		}
	}
	relay, err := outbox.NewRehearsal(w.store, outbox.Config{
		MaxAttempts: rowAttempts, RetryMin: retryMin, RetryMax: retryMax, PublishTimeout: feedLease / 2, Lease: feedLease, Clock: w.clock.Clock(),
		Observer: &onefold.Observer{Fetched: at(atFetched), Published: at(atPublished), Settled: at(atSettled)},
	}, w.answers, w.server.target.read)
	if err != nil {
		panic(err)
	}
	w.relay = relay
}

// answers is the server's answer to one published row.
func (w *world) answers(m *nats.Msg) (*jetstream.PubAck, error) {
	how := arrives
	if len(w.replies) > 0 {
		how, w.replies = w.replies[0], w.replies[1:]
	}
	w.note("    %q to %s %s", m.Data, m.Subject, replyNames[how])
	switch how {
	case isLost:
		return nil, nats.ErrTimeout
	case isRefused:
		return nil, &jetstream.APIError{Code: 400, ErrorCode: 10060, Description: "no"}
	}
	own := *m
	own.Header = maps.Clone(m.Header)
	ack := w.server.target.publish(&own, w.now)
	w.judge(w.ledger.published(m.Header.Get(nats.MsgIdHdr), m.Subject, string(m.Data)))
	if how == arrivesUnanswered {
		return nil, nats.ErrTimeout
	}
	return ack, nil
}
