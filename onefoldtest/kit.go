package onefoldtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/dedupe"
)

// Kit tests one handler. Its methods belong to the goroutine of the test, except that [Kit.During] calls back from
// another one while it waits.
type Kit struct {
	tb     testing.TB
	cfg    consumer.Config
	probes []*Probe

	world    *world // where the methods act
	nested   bool   // inside of something that reports when it is over
	sequence uint64
	schedule string // what is tried now, for messages

	mu       sync.Mutex
	running  []*run // handlers that run now, the innermost last
	problems []string
	said     map[string]bool // what was reported once
}

// New returns a kit for cfg.Handler, or for cfg.Batch with one message at a time. cfg is the configuration of the service; Stream and Name may be left out. The test
// fails at once if it cannot work, or if it sets a clock: use [Kit.Clock].
func New(tb testing.TB, cfg consumer.Config, probes ...*Probe) *Kit {
	tb.Helper()
	if cfg.Clock.Wall != nil || cfg.Clock.Mono != nil {
		tb.Fatalf("onefoldtest: Config.Clock is set; leave it out, the kit's own clock moves with Advance")
	}
	if cfg.Batch != nil && cfg.Handler == nil {
		cfg.Handler, cfg.Batch = cfg.Batch.OneByOne(), nil
	}
	setDefault(&cfg.Stream, "TEST")
	setDefault(&cfg.Name, "handler")
	setDefault(&cfg.Scope, cfg.Stream+"/"+cfg.Name)
	setDefault(&cfg.DeadLetterSubject, consumer.DefaultDeadLetterPrefix+cfg.Stream+"."+cfg.Name)
	setDefault(&cfg.Lease, consumer.DefaultLease)
	setDefault(&cfg.AckWait, consumer.DefaultAckWait)
	setDefault(&cfg.MaxAttempts, consumer.DefaultMaxAttempts)
	if cfg.ID == nil {
		cfg.ID = dedupe.DefaultID
	}
	k := &Kit{tb: tb, cfg: cfg, probes: probes, said: map[string]bool{}}
	for i, p := range probes {
		if p == nil || p.kit != nil {
			tb.Fatalf("onefoldtest: probe %d is nil or belongs to another kit; make one with NewProbe for each kit", i)
		}
		p.kit = k
	}
	w, err := newWorld(k)
	if err != nil {
		tb.Fatalf("onefoldtest: %v", err)
	}
	k.world = w
	tb.Cleanup(func() { k.world.close() })
	return k
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Message makes a message with the given ID in the header Onefold-Id, at the next position of the stream. body becomes
// bytes as in fx.Publish: a []byte as it is, anything else as JSON. Without an ID there is no header; other headers are
// added to Message.Header before the first delivery.
func (k *Kit) Message(subject, id string, body any) *onefold.Message {
	k.tb.Helper()
	m := &onefold.Message{Subject: subject, Data: k.bytes(body), Header: onefold.Header{}}
	if id != "" {
		m.Header[onefold.HeaderID] = []string{id}
	}
	return k.stored(m)
}

// Copy is the same message at another position, as a producer makes it that publishes again.
func (k *Kit) Copy(msg *onefold.Message) *onefold.Message {
	m := *msg
	return k.stored(&m)
}

func (k *Kit) stored(m *onefold.Message) *onefold.Message {
	k.sequence++
	m.Stream, m.Consumer, m.Sequence, m.Time = k.cfg.Stream, k.cfg.Name, k.sequence, k.world.clock.Wall()
	return m
}

// bytes is how fx turns a value into a payload.
func (k *Kit) bytes(v any) []byte {
	k.tb.Helper()
	switch v := v.(type) {
	case nil:
		return nil
	case []byte:
		return slices.Clone(v)
	}
	data, err := json.Marshal(v)
	if err != nil {
		k.tb.Fatalf("onefoldtest: encode %T: %v; give a []byte or something that encodes as JSON", v, err)
	}
	return data
}

// Clock is the kit's clock, for handlers that take one. It begins at 2030-01-02 03:04:05 UTC: an Effect.NotBefore that a
// handler computes from time.Now is in its past, so compute it from the message's time or from this clock. It stands still between calls of [Kit.Advance], and moves by
// itself only where the kit lets a delay, AckWait or a lease pass.
func (k *Kit) Clock() onefold.Clock {
	return onefold.Clock{
		Wall: func() time.Time { return k.world.clock.Wall() },
		Mono: func() time.Duration { return k.world.clock.Mono() },
	}
}

// Advance lets d pass. What was not to be sent before now leaves.
func (k *Kit) Advance(d time.Duration) {
	k.tb.Helper()
	k.step(func() {
		k.world.clock.Advance(d)
		k.world.relay()
	})
}

// Seed stores a value of state, encoded as the body of a [Kit.Message], as an earlier handler would have left it.
func (k *Kit) Seed(table, key string, value any) {
	k.tb.Helper()
	data := k.bytes(value)
	k.step(func() { k.check(k.world.seed(table, key, data)) })
}

// step does one thing in the present world, and reports what has come up.
func (k *Kit) step(do func()) {
	k.tb.Helper()
	if k.nested {
		do()
		return
	}
	k.nested = true
	do()
	k.nested = false
	k.world.checkProbes()
	k.flush()
}

// elsewhere does something in a copy of the present world, and leaves what has come up to flush.
func (k *Kit) elsewhere(schedule string, do func()) {
	k.tb.Helper()
	w, err := k.world.copy()
	k.check(err)
	here, nested, before := k.world, k.nested, k.schedule
	k.world, k.nested, k.schedule = w, true, schedule
	defer func() {
		k.world, k.nested, k.schedule = here, nested, before
		w.close()
	}()
	do()
	w.checkProbes()
}

// check ends the test if the kit itself cannot go on.
func (k *Kit) check(err error) {
	k.tb.Helper()
	if err != nil {
		k.tb.Fatalf("onefoldtest: %v", err)
	}
}

// report keeps one problem for flush. Problems with one name are reported once.
func (k *Kit) report(name, format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.said[name] {
		return
	}
	k.said[name] = true
	text := fmt.Sprintf(format, args...)
	if k.schedule != "" {
		text = k.schedule + ": " + text
	}
	k.problems = append(k.problems, text)
}

// flush reports the problems to the test and tells whether there were any.
func (k *Kit) flush() bool {
	k.tb.Helper()
	k.mu.Lock()
	problems := k.problems
	k.problems = nil
	k.mu.Unlock()
	for _, p := range problems {
		k.tb.Errorf("%s", p)
	}
	return len(problems) > 0
}
