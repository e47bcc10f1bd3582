package outbox_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/memstore"
)

func TestScenario_O06_RowsThatWaitedWhenTheProcessDiedGoOutAtTheNextStartWithoutTraffic(t *testing.T) {
	const n = 50
	// A relay with a long lease dies while it holds some of the rows.
	held := func(t *testing.T, r *rig) {
		r.emitMany("m", n, "out.a")
		feed, err := r.st.Feed(r.ctx, time.Hour)
		require.NoError(t, err)
		rows, err := feed.Next(r.ctx, 10)
		require.NoError(t, err)
		require.NoError(t, r.st.Settle(r.ctx, []onefold.Settlement{{Row: rows[0], State: onefold.Delayed, Reason: "no"}}))
	}
	for name, die := range map[string]func(t *testing.T, r *rig) onefold.Store{
		"memstore": func(t *testing.T, r *rig) onefold.Store {
			data := memstore.NewData(onefold.Clock{})
			st, err := memstore.Open(data, nil)
			require.NoError(t, err)
			r.st = st
			held(t, r)
			data.Crash()
			st, err = memstore.Open(data, nil)
			require.NoError(t, err)
			return st
		},
		"boltstore": func(t *testing.T, r *rig) onefold.Store {
			st, err := boltstore.Open(t.TempDir(), nil)
			require.NoError(t, err)
			r.st = st
			held(t, r)
			left, dir := &bytes.Buffer{}, t.TempDir() // a backup is what a process that dies at this moment leaves
			require.NoError(t, st.Backup(r.ctx, left))
			require.NoError(t, st.Close(r.ctx))
			require.NoError(t, boltstore.Restore(r.ctx, left, dir))
			st, err = boltstore.Open(dir, nil)
			require.NoError(t, err)
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.st = die(t, r)
			t.Cleanup(func() { assert.NoError(t, r.st.Close(context.Background())) })
			r.run(outbox.Config{})
			r.await("settled", n)
			r.requireEachOnce("m", n)
		})
	}
}

func TestScenario_O09_EachRowIsMarkedInTheStoreThatItCameFrom(t *testing.T) {
	const n = 30
	onEachStore(t, func(t *testing.T, here *rig) {
		there := newRig(t) // another server, with a stream and a store of its own, and the same keys
		there.srv.Stop()
		for _, r := range []*rig{here, there} {
			r.emitMany("m", n, "out.a")
			r.run(outbox.Config{})
		}
		here.await("settled", n)
		there.await("state waiting", 1)
		waiting := func(r *rig) uint64 {
			stats, err := r.st.Stats(r.ctx)
			require.NoError(t, err)
			return stats.Waiting
		}
		assert.Zero(t, waiting(here))
		assert.EqualValues(t, n, waiting(there), "what one server has taken is owed to the other")
		require.NoError(t, there.srv.StartAgain())
		there.await("settled", n)
		assert.Zero(t, waiting(there))
		for _, r := range []*rig{here, there} {
			assert.Len(t, r.events("published"), n)
			r.requireEachOnce("m", n)
		}
	})
}

func TestRowsOutliveAServerThatComesBackEmptyAndWhatItLacksIsSaid(t *testing.T) {
	r := newRig(t)
	const n = 20
	r.emitMany("before", n, "out.a")
	c := quick
	c.MaxAttempts = 2
	r.run(c)
	r.await("settled", n)
	r.srv.Stop()
	r.emitMany("after", n, "out.a")
	require.NoError(t, r.srv.Wipe())
	require.NoError(t, r.srv.StartAgain())
	r.await("parked", n)
	for _, item := range r.parked() {
		assert.Contains(t, item.Reason, `no stream captures subject "out.a": create one`)
	}
	require.Eventually(t, r.nc.IsConnected, 10*time.Second, time.Millisecond)
	r.stream(jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}})
	resumed, err := outbox.Resume(r.ctx, r.st, outbox.Choice{Target: "out.a"}, "the stream is back", nil)
	require.NoError(t, err)
	assert.Equal(t, n, resumed)
	r.await("settled", 2*n)
	assert.Len(t, r.stored("OUT"), n, "what had left before is gone with the server")
	r.requireEachOnce("after", n)
}
