package consumer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/internal/natstest"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/memstore"
)

// rig is a server with one stream IN on "in.>", the data of one store, and what observers told.
type rig struct {
	*journal
	t    testing.TB
	ctx  context.Context
	srv  *natstest.Server
	nc   *nats.Conn
	js   jetstream.JetStream
	data *memstore.Data
	st   onefold.Store
}

func newRig(t testing.TB) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	r := &rig{journal: newJournal(ctx, t), t: t, ctx: ctx, srv: natstest.Start(t), data: memstore.NewData(onefold.Clock{})}
	r.nc, r.js = r.srv.Connect(t)
	r.open(nil)
	r.stream(jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	return r
}

// newClusterRig is a rig on three servers that replicate its stream.
func newClusterRig(t testing.TB) (*rig, *natstest.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cluster := natstest.StartCluster(t, 3)
	r := &rig{journal: newJournal(ctx, t), t: t, ctx: ctx, data: memstore.NewData(onefold.Clock{})}
	r.nc, r.js = cluster.Connect(t)
	r.open(nil)
	r.stream(jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}, Replicas: 3})
	return r, cluster
}

// open opens the data as a new process would.
func (r *rig) open(o *memstore.Options) {
	r.t.Helper()
	st, err := memstore.Open(r.data, o)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = st.Close(context.Background()) })
	r.st = st
}

// reopen is the death of the process and a new one on the same data.
func (r *rig) reopen() {
	r.t.Helper()
	r.data.Crash()
	r.open(nil)
}

func (r *rig) stream(c jetstream.StreamConfig) {
	r.t.Helper()
	_, err := r.js.CreateStream(r.ctx, c)
	require.NoError(r.t, err)
}

// publish stores one message with an ID of its own; the transport ID stays empty, so that copies get in.
func (r *rig) publish(id, body string) uint64 {
	r.t.Helper()
	return r.send(&nats.Msg{Subject: "in.a", Data: []byte(body), Header: nats.Header{onefold.HeaderID: {id}}})
}

func (r *rig) send(m *nats.Msg) uint64 {
	r.t.Helper()
	ack, err := r.js.PublishMsg(r.ctx, m)
	require.NoError(r.t, err)
	return ack.Sequence
}

// config is a good configuration around h.
func (r *rig) config(h onefold.Handler) consumer.Config {
	return consumer.Config{Stream: "IN", Name: "work", Handler: h, Concurrency: 4, AckWait: 10 * time.Second,
		RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond, Observer: r.observer()}
}

// running is a part on its own goroutine.
type running struct {
	t    testing.TB
	ctx  context.Context
	stop context.CancelFunc
	done chan error
}

func (r *rig) run(p onefold.Part) *running {
	ctx, cancel := context.WithCancel(r.ctx)
	x := &running{t: r.t, ctx: r.ctx, stop: cancel, done: make(chan error, 1)}
	go func() { x.done <- p.Run(ctx); close(x.done) }()
	r.t.Cleanup(func() {
		cancel()
		_ = x.err() // the test has looked at it, or has failed before
	})
	return x
}

// end stops the part and wants it to end in peace.
func (x *running) end() {
	x.t.Helper()
	x.stop()
	require.NoError(x.t, x.err())
}

// err waits until the part has ended.
func (x *running) err() error {
	x.t.Helper()
	select {
	case err := <-x.done:
		return err
	case <-x.ctx.Done():
		require.FailNow(x.t, "the part does not end")
		return nil
	}
}

// start runs a consumer on the rig's store and connection.
func (r *rig) start(c consumer.Config) *running {
	r.t.Helper()
	return r.startOn(r.js, r.st, c)
}

func (r *rig) startOn(js jetstream.JetStream, st onefold.Store, c consumer.Config) *running {
	r.t.Helper()
	work, err := consumer.New(js, st, c)
	require.NoError(r.t, err)
	return r.run(work)
}

// relay runs a relay on the rig's store.
func (r *rig) relay() *running {
	r.t.Helper()
	relay, err := outbox.NewRelay(r.st, outbox.Config{JetStream: r.js})
	require.NoError(r.t, err)
	return r.run(relay)
}

// info is the state of the durable at the server.
func (r *rig) info() *jetstream.ConsumerInfo {
	r.t.Helper()
	c, err := r.js.Consumer(r.ctx, "IN", "work")
	require.NoError(r.t, err)
	return c.CachedInfo()
}

// settled waits until the server has every message of the stream acked, and nothing more to deliver.
func (r *rig) settled() {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		i := r.info()
		return i.NumPending == 0 && i.NumAckPending == 0
	}, 20*time.Second, 10*time.Millisecond)
}

// read returns n messages that a stream holds from its start.
func (r *rig) read(stream string, n int) []jetstream.Msg {
	r.t.Helper()
	c, err := r.js.OrderedConsumer(r.ctx, stream, jetstream.OrderedConsumerConfig{})
	require.NoError(r.t, err)
	all := make([]jetstream.Msg, 0, n)
	for range n {
		m, err := c.Next()
		require.NoError(r.t, err)
		all = append(all, m)
	}
	return all
}

// stored is how many messages a stream holds.
func (r *rig) stored(stream string) int {
	r.t.Helper()
	s, err := r.js.Stream(r.ctx, stream)
	require.NoError(r.t, err)
	return int(s.CachedInfo().State.Msgs)
}

// told is one event of a consumer, by the name of its observer function.
type told struct {
	what  string
	event onefold.DeliveryEvent
	state onefold.StateEvent
}

// journal keeps what observers tell.
type journal struct {
	t      testing.TB
	ctx    context.Context
	mu     sync.Mutex
	all    []told
	counts map[string]int
	change chan struct{} // closed and replaced with each event
}

func newJournal(ctx context.Context, t testing.TB) *journal {
	return &journal{t: t, ctx: ctx, counts: map[string]int{}, change: make(chan struct{})}
}

func (j *journal) add(x told) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, x)
	j.counts[x.what]++
	close(j.change)
	j.change = make(chan struct{})
}

func (j *journal) observer() *onefold.Observer {
	on := func(what string) func(onefold.DeliveryEvent) {
		return func(e onefold.DeliveryEvent) { j.add(told{what: what, event: e}) }
	}
	return &onefold.Observer{
		Received: on("received"), Claimed: on("claimed"), Handled: on("handled"), Committed: on("committed"), Acked: on("acked"),
		Duplicate: on("duplicate"), Followed: on("followed"), Retried: on("retried"), DeadLettered: on("dead"),
		GivenBack: on("given back"), Dropped: on("dropped"), Lost: on("lost"),
		Zombie: on("zombie"), ZombieEnded: on("zombie ended"),
		State: func(e onefold.StateEvent) { j.add(told{what: "state " + e.To, state: e}) },
	}
}

// await waits until the events so far satisfy enough.
func (j *journal) await(what string, enough func(counts map[string]int) bool) {
	j.t.Helper()
	for {
		j.mu.Lock()
		ok, change, now := enough(j.counts), j.change, fmt.Sprint(j.counts)
		j.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-change:
		case <-j.ctx.Done():
			require.FailNow(j.t, "waited in vain for "+what, now)
		}
	}
}

// awaitCount waits until at least n events of a kind were told.
func (j *journal) awaitCount(what string, n int) {
	j.t.Helper()
	j.await(what, func(c map[string]int) bool { return c[what] >= n })
}

func (j *journal) count(what string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts[what]
}

// events returns all events of a kind.
func (j *journal) events(what string) []told {
	j.mu.Lock()
	defer j.mu.Unlock()
	var some []told
	for _, x := range j.all {
		if x.what == what {
			some = append(some, x)
		}
	}
	return some
}

// gate holds handlers until it is opened.
type gate struct {
	entered chan struct{}
	open    chan struct{}
}

func newGate() *gate { return &gate{entered: make(chan struct{}, 1024), open: make(chan struct{})} }

// pass notes the arrival and waits until the gate is open or ctx ends.
func (g *gate) pass(ctx context.Context) error {
	g.entered <- struct{}{}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await waits for one arrival.
func (r *rig) await1(c <-chan struct{}) {
	r.t.Helper()
	select {
	case <-c:
	case <-r.ctx.Done():
		require.FailNow(r.t, "waited in vain")
	}
}

// ownScope is the scope of the claim by which a consumer holds its own scope.
const ownScope = "onefold.consumer"

// faulty is a store whose calls can be made to fail. A hook that returns nil lets the call through.
type faulty struct {
	onefold.Store
	begin    func(onefold.Request) error
	commit   func([]*onefold.Commit) error // fails before anything is stored
	answered func([]*onefold.Commit)       // runs after the commit, may change its answers
	release  func(*onefold.Claim) error
	renew    func(*onefold.Claim) error
	wait     func(onefold.Key) error
	info     func(*onefold.Info)
}

func (f *faulty) Info() onefold.Info {
	i := f.Store.Info()
	if f.info != nil {
		f.info(&i)
	}
	return i
}

func (f *faulty) Begin(ctx context.Context, r onefold.Request) (onefold.Grant, error) {
	if f.begin != nil && r.Key.Scope != ownScope {
		if err := f.begin(r); err != nil {
			return onefold.Grant{}, err
		}
	}
	return f.Store.Begin(ctx, r)
}

func (f *faulty) Commit(ctx context.Context, batch []*onefold.Commit) error {
	if f.commit != nil && hasRecord(batch) {
		if err := f.commit(batch); err != nil {
			return err
		}
	}
	err := f.Store.Commit(ctx, batch)
	if f.answered != nil && err == nil && hasRecord(batch) {
		f.answered(batch)
	}
	return err
}

// hasRecord reports whether a batch is of messages, and not of the consumer's own state.
func hasRecord(batch []*onefold.Commit) bool { return batch[0].Entry.Outcome != 0 }

func (f *faulty) Release(ctx context.Context, c *onefold.Claim, x onefold.Failure) error {
	if f.release != nil && c.Key.Scope != ownScope {
		if err := f.release(c); err != nil {
			return err
		}
	}
	return f.Store.Release(ctx, c, x)
}

func (f *faulty) Renew(ctx context.Context, c *onefold.Claim, lease time.Duration) error {
	if f.renew != nil && c.Key.Scope != ownScope {
		if err := f.renew(c); err != nil {
			return err
		}
	}
	return f.Store.Renew(ctx, c, lease)
}

func (f *faulty) Wait(ctx context.Context, k onefold.Key) (onefold.Record, error) {
	if f.wait != nil {
		if err := f.wait(k); err != nil {
			return onefold.Record{}, err
		}
	}
	return f.Store.Wait(ctx, k)
}
