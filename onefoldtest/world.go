package onefoldtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/store/memstore"
	"github.com/onefold-go/onefold/store/storetest"
)

// Point is a place at which a process can die. docs/guarantees.md says of each what has happened and what follows.
type Point string

// The points, in the order of a message's life. They are the first eight functions of onefold.Observer.
const (
	Received  Point = "received"
	Claimed   Point = "claimed"
	Handled   Point = "handled"
	Committed Point = "committed"
	Acked     Point = "acked"
	Fetched   Point = "fetched"
	Published Point = "published"
	Settled   Point = "settled"
)

// Points returns all points in their order.
func Points() []Point {
	return []Point{Received, Claimed, Handled, Committed, Acked, Fetched, Published, Settled}
}

// world is one life of the handler: a clock, what survives a crash, and the process that runs now.
type world struct {
	kit   *Kit
	clock *storetest.Clock
	data  *memstore.Data

	store   *memstore.Store
	process *consumer.Rehearsal
	another *consumer.Rehearsal // a second process on the same store; nil: none yet

	sent []sent

	mu      sync.Mutex       // guards what observers change, which a waiting dead letter does from its own goroutine
	dieAt   Point            // the next time it is reached
	dead    bool             // the process has died and was not started again
	runs    []*run           // of the handler, in order
	during  func()           // while the next handler runs
	reasons map[uint64]error // why a delivery did not go well, by position
	tables  map[string]bool  // that handlers or the test have written to
}

func newWorld(k *Kit) (*world, error) {
	w := &world{kit: k, clock: storetest.NewClock(), reasons: map[uint64]error{}, tables: map[string]bool{}}
	w.data = memstore.NewData(w.clock.Clock())
	return w, w.start()
}

// copy is a world of its own with everything in it that there is here, as a process finds it that has just been
// started. The past is copied and not gone through again, because what the handler calls may be otherwise now.
func (w *world) copy() (*world, error) {
	w.mu.Lock()
	c := &world{
		kit: w.kit, clock: storetest.NewClock(), data: w.data.Clone(), sent: slices.Clone(w.sent),
		reasons: maps.Clone(w.reasons), tables: maps.Clone(w.tables),
	}
	for _, r := range w.runs {
		one := *r
		c.runs = append(c.runs, &one)
	}
	w.mu.Unlock()
	c.clock.Advance(w.clock.Mono() - c.clock.Mono()) // all clocks of a kit start alike and move by Advance alone
	return c, c.start()
}

// start starts a process on what is stored.
func (w *world) start() (err error) {
	if w.store, err = memstore.Open(w.data, &memstore.Options{Clock: w.clock.Clock()}); err != nil {
		return err
	}
	w.dead = false
	w.process, err = w.newProcess()
	return err
}

func (w *world) newProcess() (*consumer.Rehearsal, error) {
	cfg := w.kit.cfg
	cfg.Clock, cfg.Observer = w.clock.Clock(), w.observer()
	if cfg.Handler != nil {
		cfg.Handler = w.handle
	}
	return consumer.NewRehearsal(w.store, cfg)
}

// end ends the process.
func (w *world) end() {
	for _, p := range []*consumer.Rehearsal{w.process, w.another} {
		if p != nil {
			p.Close()
		}
	}
	w.process, w.another = nil, nil
}

func (w *world) close() {
	w.end()
	_ = w.store.Close(context.Background()) // a store that has died says so
}

// restart lets the process die, if it has not yet, and starts another.
func (w *world) restart() error {
	w.data.Crash()
	w.end()
	return w.start()
}

// observer tells the service's own observer, and dies where the schedule says.
func (w *world) observer() *onefold.Observer {
	var o onefold.Observer
	if w.kit.cfg.Observer != nil {
		o = *w.kit.cfg.Observer
	}
	at := func(f *func(onefold.DeliveryEvent), p Point) {
		own := *f
		*f = func(e onefold.DeliveryEvent) {
			if own != nil {
				own(e)
			}
			w.note(e)
			w.reach(p)
		}
	}
	for p, f := range map[Point]*func(onefold.DeliveryEvent){
		Received: &o.Received, Claimed: &o.Claimed, Handled: &o.Handled, Committed: &o.Committed, Acked: &o.Acked,
	} {
		at(f, p)
	}
	for _, f := range []*func(onefold.DeliveryEvent){&o.Retried, &o.DeadLettered, &o.Dropped, &o.Lost} {
		at(f, "")
	}
	return &o
}

func (w *world) note(e onefold.DeliveryEvent) {
	if e.Err != nil {
		w.mu.Lock()
		w.reasons[e.Sequence] = e.Err
		w.mu.Unlock()
	}
	var panicked *onefold.PanicError
	if errors.As(e.Err, &panicked) {
		if text, ok := panicked.Value.(unbound); ok {
			w.kit.report(string(text), "%s", string(text))
		}
	}
}

// reach dies if the schedule says so. The store is cut off first, so that nothing that is still on its way can be
// stored.
func (w *world) reach(p Point) {
	w.mu.Lock()
	die := p != "" && p == w.dieAt
	if die {
		w.dieAt, w.dead = "", true
	}
	w.mu.Unlock()
	if die {
		w.data.Crash()
		runtime.Goexit()
	}
}

func (w *world) died() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// seed writes one value.
func (w *world) seed(table, key string, data []byte) error {
	w.tables[table] = true
	c := &onefold.Commit{Entry: onefold.Entry{Writes: []onefold.Write{{Table: table, Key: key, Value: data}}}}
	if err := w.store.Commit(context.Background(), []*onefold.Commit{c}); err != nil {
		return err
	}
	if c.Err != nil {
		return fmt.Errorf("seed %q/%q: %w", table, key, c.Err)
	}
	return nil
}

// deliver brings msg to the process and lets the relay do its work.
func (w *world) deliver(msg *onefold.Message, elsewhere bool) (Delivery, error) {
	p := w.process
	if elsewhere {
		if w.another == nil {
			var err error
			if w.another, err = w.newProcess(); err != nil {
				return Delivery{}, err
			}
		}
		p = w.another
	}
	w.mu.Lock()
	before := len(w.runs)
	delete(w.reasons, msg.Sequence)
	w.mu.Unlock()
	answer := p.Deliver(msg)
	if !w.died() {
		w.relay()
	}
	if !w.died() {
		p.Wait()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	d := Delivery{Answer: answer(), Err: w.reasons[msg.Sequence]}
	for _, r := range w.runs[before:] {
		if r.sequence == msg.Sequence {
			d.Runs++
		}
	}
	return d, nil
}
