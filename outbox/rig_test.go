package outbox_test

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
	"github.com/onefold-go/onefold/internal/natstest"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/memstore"
)

// rig is a server with one stream OUT on "out.>", a store, and a record of what relays told.
type rig struct {
	t   testing.TB
	ctx context.Context
	srv *natstest.Server
	nc  *nats.Conn
	js  jetstream.JetStream
	st  onefold.Store

	mu     sync.Mutex
	told   []told
	change chan struct{} // closed and replaced with each event
}

// told is one event of a relay, by the name of its observer function.
type told struct {
	what  string
	row   onefold.RowEvent
	state onefold.StateEvent
}

func newRig(t testing.TB) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, srv: natstest.Start(t), change: make(chan struct{})}
	r.nc, r.js = r.srv.Connect(t)
	st := memstore.New()
	t.Cleanup(func() { _ = st.Close(context.Background()) })
	r.st = st
	r.stream(jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}})
	return r
}

// stream creates or changes a stream.
func (r *rig) stream(c jetstream.StreamConfig) {
	r.t.Helper()
	_, err := r.js.CreateOrUpdateStream(r.ctx, c)
	require.NoError(r.t, err)
}

// key is the key of the n-th piece of work in the tests.
func key(id string) onefold.Key { return onefold.Key{Scope: "test", ID: id} }

// emit commits one effect under its own key.
func (r *rig) emit(id string, e onefold.Effect) {
	r.t.Helper()
	_, err := outbox.Enqueue(r.ctx, r.st, key(id), 0, func(fx *onefold.Effects) error {
		fx.Emit(e)
		return nil
	})
	require.NoError(r.t, err)
}

// emitMany commits n messages "<prefix>-<i>" to subject with the body i.
func (r *rig) emitMany(prefix string, n int, subject string) {
	r.t.Helper()
	for i := range n {
		r.emit(fmt.Sprintf("%s-%d", prefix, i), onefold.Effect{Target: subject, Payload: fmt.Append(nil, i)})
	}
}

// run starts a relay. stop ends it and returns what Run returned; it is called by the test's cleanup too.
func (r *rig) run(c outbox.Config) (stop func() error) {
	r.t.Helper()
	if c.JetStream == nil {
		c.JetStream = r.js
	}
	if c.Observer == nil {
		c.Observer = r.observer()
	}
	relay, err := outbox.NewRelay(r.st, c)
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
	})
	r.t.Cleanup(func() { _ = stop() })
	return stop
}

func (r *rig) observer() *onefold.Observer {
	row := func(what string) func(onefold.RowEvent) {
		return func(e onefold.RowEvent) { r.note(told{what: what, row: e}) }
	}
	return &onefold.Observer{
		Fetched: row("fetched"), Published: row("published"), Settled: row("settled"),
		RowDelayed: row("delayed"), RowParked: row("parked"),
		State: func(e onefold.StateEvent) { r.note(told{what: "state " + e.To, state: e}) },
	}
}

func (r *rig) note(e told) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, e)
	close(r.change)
	r.change = make(chan struct{})
}

// events are the events of one kind so far.
func (r *rig) events(what string) []told {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []told
	for _, e := range r.told {
		if e.what == what {
			found = append(found, e)
		}
	}
	return found
}

// await waits until n events of one kind have come and returns them.
func (r *rig) await(what string, n int) []told {
	r.t.Helper()
	for {
		r.mu.Lock()
		change := r.change
		r.mu.Unlock()
		found := r.events(what)
		if len(found) >= n {
			return found
		}
		select {
		case <-change:
		case <-r.ctx.Done():
			require.FailNow(r.t, "waited in vain", "%d of %d %s events; all: %v", len(found), n, what, r.all())
		}
	}
}

func (r *rig) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, e := range r.told {
		names = append(names, fmt.Sprintf("%s(%s #%d: %v)", e.what, e.row.Target, e.row.Attempt, e.row.Err))
	}
	return names[max(0, len(names)-50):]
}

// stored are the messages of a stream in its order.
func (r *rig) stored(stream string) []*jetstream.RawStreamMsg {
	r.t.Helper()
	s, err := r.js.Stream(r.ctx, stream)
	require.NoError(r.t, err)
	info, err := s.Info(r.ctx)
	require.NoError(r.t, err)
	var all []*jetstream.RawStreamMsg
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && info.State.Msgs > 0; seq++ {
		m, err := s.GetMsg(r.ctx, seq)
		require.NoError(r.t, err)
		all = append(all, m)
	}
	return all
}

// requireEachOnce checks that the stream holds every message of emitMany once.
func (r *rig) requireEachOnce(prefix string, n int) {
	r.t.Helper()
	seen := map[string]int{}
	for _, m := range r.stored("OUT") {
		seen[m.Header.Get(onefold.HeaderID)]++
	}
	for i := range n {
		id := key(fmt.Sprintf("%s-%d", prefix, i)).EffectID(0)
		require.Equal(r.t, 1, seen[id], "message %d", i)
	}
}

// parked are the rows that wait for a person.
func (r *rig) parked() []onefold.Item {
	r.t.Helper()
	var items []onefold.Item
	for item, err := range r.st.Scan(r.ctx, onefold.Query{What: onefold.WhatParked}) {
		require.NoError(r.t, err)
		items = append(items, item)
	}
	return items
}

// streamOn is a stream with one subject.
func streamOn(name, subject string) jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: name, Subjects: []string{subject}}
}
