package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// bySubject orders by the last token of the subject; "free" is in no order.
func bySubject(m *onefold.Message) string {
	key := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	if key == "free" {
		return ""
	}
	return key
}

// publishTo stores a message of an ordering key.
func (r *rig) publishTo(key, id string) uint64 {
	r.t.Helper()
	return r.send(&nats.Msg{Subject: "in." + key, Data: []byte(id), Header: nats.Header{onefold.HeaderID: {id}}})
}

// turns notes which messages ran, and that no two of one key run at once.
type turns struct {
	t       *testing.T
	mu      sync.Mutex
	running map[string]bool
	done    map[string][]string // IDs of runs that returned nil, by key
	runs    []string            // IDs of all runs
}

func newTurns(t *testing.T) *turns {
	return &turns{t: t, running: map[string]bool{}, done: map[string][]string{}}
}

func (x *turns) begin(m *onefold.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := bySubject(m)
	assert.False(x.t, key != "" && x.running[key], "two of key %s run at once", key)
	x.running[key] = true
	x.runs = append(x.runs, string(m.Data))
}

func (x *turns) end(m *onefold.Message, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := bySubject(m)
	x.running[key] = false
	if ok {
		x.done[key] = append(x.done[key], string(m.Data))
	}
}

func (x *turns) all() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]string(nil), x.runs...)
}

// handler runs h in turn.
func (x *turns) handler(h onefold.Handler) onefold.Handler {
	return func(ctx context.Context, m *onefold.Message, fx *onefold.Effects) (err error) {
		x.begin(m)
		ok := false
		defer func() { x.end(m, ok) }()
		err = h(ctx, m, fx)
		ok = err == nil
		return err
	}
}

func TestScenario_O15_OrderOfAKeyHoldsWithFailuresPanicsCopiesAndManyHandlers(t *testing.T) {
	r, x := newRig(t), newTurns(t)
	const keys, each = 12, 40
	c := r.config(x.handler(func(_ context.Context, m *onefold.Message, fx *onefold.Effects) error {
		switch n := (m.Sequence*7 + uint64(fx.Attempt())*3) % 10; {
		case n == 0:
			panic("a bad day")
		case n < 4:
			return errors.New("not yet")
		}
		return nil
	}))
	c.OrderBy, c.Concurrency, c.MaxAttempts = bySubject, 8, 50
	for i := range each {
		for k := range keys {
			r.publishTo(fmt.Sprint(k), fmt.Sprintf("%d-%d", k, i))
			if (i+k)%9 == 0 {
				r.publishTo(fmt.Sprint(k), fmt.Sprintf("%d-%d", k, i)) // a copy
			}
		}
	}
	w := r.start(c)
	r.awaitCount("acked", keys*each)
	r.settled()
	w.end()
	for k := range keys {
		var want []string
		for i := range each {
			want = append(want, fmt.Sprintf("%d-%d", k, i))
		}
		assert.Equal(t, want, x.done[fmt.Sprint(k)])
	}
	assert.Positive(t, r.count("retried"))
}

func TestAMessageWithoutAnOrderingKeyWaitsForNobody(t *testing.T) {
	r, g := newRig(t), newGate()
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return g.pass(ctx) })
	c.OrderBy = bySubject
	w := r.start(c)
	r.publishTo("free", "1")
	r.publishTo("free", "2")
	r.await1(g.entered)
	r.await1(g.entered)
	close(g.open)
	r.settled()
	w.end()
}

func TestADeadLetterEndsTheTurnOfItsMessageBeforeItIsSent(t *testing.T) {
	r, x := newRig(t), newTurns(t)
	c := r.config(x.handler(func(_ context.Context, m *onefold.Message, _ *onefold.Effects) error {
		if string(m.Data) == "1" {
			return errors.New("never")
		}
		return nil
	}))
	c.OrderBy, c.MaxAttempts = bySubject, 3
	r.publishTo("k", "1")
	r.publishTo("k", "2")
	w := r.start(c) // no relay
	r.awaitCount("acked", 1)
	w.end()
	assert.Equal(t, []string{"1", "1", "1", "2"}, x.all())
}

func TestWhatWaitsForItsTurnIsKeptAtTheServerForAsLongAsItTakes(t *testing.T) {
	r, x := newRig(t), newTurns(t)
	c := r.config(x.handler(func(ctx context.Context, m *onefold.Message, _ *onefold.Effects) error {
		if string(m.Data) == "1" {
			return after(ctx, 1500*time.Millisecond) // five times AckWait
		}
		return nil
	}))
	c.OrderBy, c.AckWait = bySubject, 300*time.Millisecond
	r.publishTo("k", "1")
	r.publishTo("k", "2")
	r.publishTo("k", "3")
	w := r.start(c)
	r.awaitCount("acked", 3)
	w.end()
	assert.Equal(t, []string{"1", "2", "3"}, x.all())
	assert.Zero(t, r.count("given back")+r.count("dropped"))
}

func TestWhatFindsNoRoomToWaitIsGivenBackAndOtherKeysGoOn(t *testing.T) {
	r, x, g := newRig(t), newTurns(t), newGate()
	c := r.config(x.handler(func(ctx context.Context, m *onefold.Message, _ *onefold.Effects) error {
		if string(m.Data) == "hot-0" {
			return g.pass(ctx)
		}
		return nil
	}))
	c.OrderBy, c.MaxAckPending, c.AckWait = bySubject, 20, 2*time.Second // room for 10 to wait
	var want []string
	for i := range 15 {
		r.publishTo("hot", fmt.Sprintf("hot-%d", i))
		want = append(want, fmt.Sprintf("hot-%d", i))
	}
	for i := range 30 {
		r.publishTo("cold", fmt.Sprintf("cold-%d", i))
	}
	w := r.start(c)
	r.awaitCount("acked", 30)
	assert.Positive(t, r.count("given back"))
	close(g.open)
	r.settled()
	w.end()
	assert.Equal(t, want, x.done["hot"])
}

func TestAFailedMessageThatIsAwayForLongHoldsItsKeyOverACrash(t *testing.T) {
	r, x := newRig(t), newTurns(t)
	c := r.config(x.handler(func(_ context.Context, m *onefold.Message, _ *onefold.Effects) error {
		if string(m.Data) == "1" && len(x.all()) < 2 {
			return onefold.RetryAfter(4*time.Second, errors.New("later"))
		}
		return nil
	}))
	c.OrderBy, c.AckWait = bySubject, time.Second
	nc, js := r.srv.Connect(t)
	w := r.startOn(js, r.st, c)
	r.publishTo("k", "1")
	r.awaitCount("retried", 1)
	require.NoError(t, nc.Flush())
	nc.Close()
	r.reopen()
	require.Error(t, w.err())
	r.publishTo("k", "2")
	r.publishTo("other", "3")
	w = r.start(c)
	r.settled()
	w.end()
	assert.Equal(t, []string{"1", "3", "1", "2"}, x.all())
	assert.Equal(t, 1, r.count("state "+stateOrdering), "what was handed out before the crash comes first")
}

const stateOrdering = "waiting for what was handed out before a crash"

func TestAFailedMessageHoldsItsKeyOverACleanStopAndNobodyWaits(t *testing.T) {
	r, x := newRig(t), newTurns(t)
	c := r.config(x.handler(func(_ context.Context, m *onefold.Message, _ *onefold.Effects) error {
		if string(m.Data) == "1" && len(x.all()) < 2 {
			return onefold.RetryAfter(700*time.Millisecond, errors.New("later"))
		}
		return nil
	}))
	c.OrderBy = bySubject
	w := r.start(c)
	r.publishTo("k", "1")
	r.awaitCount("retried", 1)
	w.end()
	r.publishTo("k", "2")
	w = r.start(c)
	r.settled()
	w.end()
	assert.Equal(t, []string{"1", "1", "2"}, x.all())
	assert.Zero(t, r.count("state "+stateOrdering))
}

func TestWhatRanDuringACrashRunsBeforeLaterMessagesOfItsKey(t *testing.T) {
	r, x := newRig(t), newTurns(t)
	var crashed atomic.Bool
	entered := make(chan struct{}, 1)
	c := r.config(func(ctx context.Context, m *onefold.Message, fx *onefold.Effects) error {
		if !crashed.Load() {
			entered <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		return x.handler(func(context.Context, *onefold.Message, *onefold.Effects) error { return nil })(ctx, m, fx)
	})
	c.OrderBy, c.AckWait, c.ShutdownTimeout = bySubject, time.Second, 10*time.Millisecond
	nc, js := r.srv.Connect(t)
	w := r.startOn(js, r.st, c)
	r.publishTo("k", "1")
	r.await1(entered)
	r.publishTo("k", "2")
	r.awaitCount("received", 2)
	nc.Close() // nothing is answered any more
	r.reopen()
	require.Error(t, w.err())
	crashed.Store(true)
	r.publishTo("k", "3")
	w = r.start(c)
	r.settled()
	w.end()
	assert.Equal(t, []string{"1", "2", "3"}, x.all())
}

// The server hands out what is due in the order in which it became due. The former process said last of the first
// message that it still worked on it, so the second one comes before it.
func TestAfterACrashAKeyStartsWithItsFirstMessageInWhateverOrderTheyCome(t *testing.T) {
	r, x := newRig(t), newTurns(t)
	var crashed atomic.Bool
	entered := make(chan struct{}, 1)
	c := r.config(func(ctx context.Context, m *onefold.Message, fx *onefold.Effects) error {
		if !crashed.Load() {
			entered <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		return x.handler(func(context.Context, *onefold.Message, *onefold.Effects) error { return nil })(ctx, m, fx)
	})
	c.OrderBy, c.AckWait, c.ShutdownTimeout = bySubject, time.Second, 10*time.Millisecond
	working := make(chan string, 64) // where the process says that it works on the first message
	_, err := r.nc.Subscribe("$JS.ACK.IN.work.1.1.>", func(m *nats.Msg) { working <- m.Subject })
	require.NoError(t, err)
	nc, js := r.srv.Connect(t)
	w := r.startOn(js, r.st, c)
	r.publishTo("k", "1")
	r.await1(entered)
	for id := 2; id <= 9; id++ {
		r.publishTo("k", fmt.Sprint(id))
	}
	r.awaitCount("received", 9)
	first := <-working
	nc.Close()
	r.reopen()
	require.Error(t, w.err())
	require.NoError(t, r.nc.Publish(first, []byte("+WPI")))
	crashed.Store(true)
	w = r.start(c)
	r.settled()
	w.end()
	assert.Equal(t, []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}, x.all())
}

func TestAMessageThatTheStreamHasLostHoldsUpNobody(t *testing.T) {
	r, x := newRig(t), newTurns(t)
	c := r.config(x.handler(func(_ context.Context, m *onefold.Message, _ *onefold.Effects) error {
		if string(m.Data) == "1" {
			return onefold.RetryAfter(time.Second, errors.New("later"))
		}
		return nil
	}))
	c.OrderBy, c.AckWait = bySubject, 400*time.Millisecond
	w := r.start(c)
	lost := r.publishTo("k", "1")
	r.awaitCount("retried", 1)
	r.publishTo("k", "2")
	r.awaitCount("received", 2)
	s, err := r.js.Stream(r.ctx, "IN")
	require.NoError(t, err)
	require.NoError(t, s.DeleteMsg(r.ctx, lost))
	r.awaitCount("acked", 1)
	r.settled()
	w.end()
	assert.Equal(t, []string{"1", "2"}, x.all())
}

func TestAPanicInOrderByIsADeadLetter(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	c := r.config(counting(&runs))
	c.OrderBy = func(*onefold.Message) string { panic("no order today") }
	w := r.start(c)
	relay := r.relay()
	r.publishTo("k", "1")
	r.awaitCount("acked", 1)
	w.end()
	relay.end()
	assert.Zero(t, runs.Load())
	dead := r.events("dead")
	require.Len(t, dead, 1)
	assert.Equal(t, onefold.ClassPanic, dead[0].event.Class)
	assert.ErrorContains(t, dead[0].event.Err, "no order today")
}
