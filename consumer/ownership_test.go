package consumer_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/memstore"
)

// serveOnce runs a consumer on st until it has acked n messages.
func (r *rig) serveOnce(st onefold.Store, n int) {
	r.t.Helper()
	before := r.count("acked")
	w := r.startOn(r.js, st, r.config(nothing))
	r.publishMany(n, func(i int) (string, string) { return fmt.Sprint(before + i), "x" })
	r.awaitCount("acked", before+n)
	r.settled()
	w.end()
}

func (r *rig) memory() onefold.Store {
	r.t.Helper()
	st, err := memstore.Open(memstore.NewData(onefold.Clock{}), nil)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = st.Close(context.Background()) })
	return st
}

func TestADurableIsNotServedWithAStoreThatForgotWhatWasDone(t *testing.T) {
	r := newRig(t)
	r.serveOnce(r.st, 3)
	before := r.info().Config.Metadata
	emptied := r.memory()
	err := r.startOn(r.js, emptied, r.config(nothing)).err()
	require.ErrorIs(t, err, consumer.ErrWrongStore)
	assert.ErrorContains(t, err, "store "+r.st.Info().ID)
	assert.ErrorContains(t, err, emptied.Info().ID)
	assert.ErrorContains(t, err, "is empty")
	assert.Equal(t, before, r.info().Config.Metadata, "a refused store leaves no trace")

	c := r.config(nothing)
	c.AdoptDurable = true
	w := r.startOn(r.js, emptied, c)
	r.awaitCount("state running", 2)
	w.end()
	r.serveOnce(emptied, 1) // without the override, from then on
	err = r.start(r.config(nothing)).err()
	require.ErrorIs(t, err, consumer.ErrWrongStore, "the former store is the wrong one now")
	assert.NotContains(t, err.Error(), "is empty")
}

func TestTheSameStoreIsAdmittedWhateverWayItWasClosed(t *testing.T) {
	r := newRig(t)
	for range 3 {
		r.serveOnce(r.st, 2)
		r.serveOnce(r.st, 2) // without closing the store in between
		r.reopen()
	}
	position, err := strconv.ParseUint(r.info().Config.Metadata["onefold.position"], 10, 64)
	require.NoError(t, err)
	assert.Positive(t, position)
}

// copied is the directory of a closed store, copied.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// closed runs f with the store in dir, and closes it in order.
func closed(t *testing.T, dir string, f func(st onefold.Store)) {
	t.Helper()
	st, err := boltstore.Open(dir, nil)
	require.NoError(t, err)
	f(st)
	require.NoError(t, st.Close(t.Context()))
}

func TestAnOlderCopyOfAStoreIsRefused(t *testing.T) {
	r, dir := newRig(t), t.TempDir()
	closed(t, dir, func(st onefold.Store) { r.serveOnce(st, 3) })
	old := copied(t, dir)
	closed(t, dir, func(st onefold.Store) { r.serveOnce(st, 3) })
	closed(t, old, func(st onefold.Store) {
		err := r.startOn(r.js, st, r.config(nothing)).err()
		require.ErrorIs(t, err, consumer.ErrWrongStore)
		assert.ErrorContains(t, err, "older copy")
	})
	closed(t, dir, func(st onefold.Store) { r.serveOnce(st, 1) })
}

func TestAnOlderCopyIsRefusedByWhatItDoesNotKnowIfItWasMadeSinceTheNote(t *testing.T) {
	r, dir := newRig(t), t.TempDir()
	closed(t, dir, func(st onefold.Store) { r.serveOnce(st, 3) })
	old, note := copied(t, dir), r.info().Config
	closed(t, dir, func(st onefold.Store) { r.serveOnce(st, 3) })
	// The process was killed instead, so that the note of its start stands, which the copy fits.
	delete(note.Metadata, "onefold.ended")
	_, err := r.js.UpdateConsumer(r.ctx, "IN", note)
	require.NoError(t, err)
	closed(t, old, func(st onefold.Store) {
		err := r.startOn(r.js, st, r.config(nothing)).err()
		require.ErrorIs(t, err, consumer.ErrWrongStore)
		assert.ErrorContains(t, err, "stream message 6 is acked")
	})
	closed(t, dir, func(st onefold.Store) { r.serveOnce(st, 1) })
}

func TestAKilledProcessIsNotTakenForAnOlderCopy(t *testing.T) {
	r := newRig(t)
	w := r.start(r.config(nothing))
	r.publishMany(20, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	r.awaitCount("acked", 20)
	r.settled()
	r.forgetFloorAfter(3) // the floor in the store is behind the server's
	r.reopen()
	require.ErrorIs(t, w.err(), onefold.ErrClosed)
	r.serveOnce(r.st, 1)
}

// forgetFloorAfter waits until the floor is stored, and sets it back.
func (r *rig) forgetFloorAfter(position uint64) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.storedFloor() == 20 }, 10*time.Second, 10*time.Millisecond)
	v, err := r.st.Read(r.ctx, "onefold.floor", "IN/work")
	require.NoError(r.t, err)
	c := onefold.Commit{Entry: onefold.Entry{Writes: []onefold.Write{{Table: "onefold.floor", Key: "IN/work", Value: consumer.FloorAt(v.Data, position)}}}}
	require.NoError(r.t, r.st.Commit(r.ctx, []*onefold.Commit{&c}))
	require.NoError(r.t, c.Err)
}

func TestASecondLiveProcessWithAStoreOfItsOwnIsRefusedByName(t *testing.T) {
	r := newRig(t)
	w := r.start(r.config(nothing))
	r.awaitCount("state running", 1)
	c := r.config(nothing)
	c.AdoptDurable = true // overrules a note, never a live process
	err := r.startOn(r.js, r.memory(), c).err()
	require.ErrorIs(t, err, consumer.ErrServedElsewhere)
	host, _ := os.Hostname()
	assert.ErrorContains(t, err, fmt.Sprintf("process %d on %s", os.Getpid(), host))
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
}

func TestOneWhoStartsUnheardIsToldWhenItIsHeard(t *testing.T) {
	r := newRig(t)
	// The first one is open and does not answer, as one does not that was cut off.
	first, err := consumer.New(r.js, r.st, r.config(nothing))
	require.NoError(t, err)
	a, err := first.Open(r.ctx)
	require.NoError(t, err)
	a.Deafen()
	second, err := consumer.New(r.js, r.memory(), r.adopting())
	require.NoError(t, err)
	b, err := second.Open(r.ctx)
	require.NoError(t, err, "it hears nobody")
	a.Announce() // as it does when it is connected again
	require.ErrorIs(t, a.Start(r.ctx), consumer.ErrServedElsewhere)
	stopped, stop := context.WithCancel(r.ctx)
	stop()
	require.NoError(t, b.Start(stopped))
}

func (r *rig) adopting() consumer.Config {
	c := r.config(nothing)
	c.AdoptDurable = true
	return c
}

func TestProcessesThatShareOneStoreServeADurableTogether(t *testing.T) {
	r := newRig(t)
	st := shared(r.st)
	first := r.startOn(r.js, st, r.config(nothing))
	r.awaitCount("state running", 1)
	second := r.startOn(r.js, st, r.config(nothing))
	r.awaitCount("state running", 2)
	r.publishMany(20, func(i int) (string, string) { return strconv.Itoa(i), "x" })
	r.awaitCount("acked", 20)
	r.settled()
	first.end()
	second.end()
}

func TestATakenDurableEndsTheSessionThatHadIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.start(r.config(nothing))
	r.awaitCount("state running", 1)
	taken := r.info().Config
	taken.Metadata["onefold.store"] = "another"
	_, err := r.js.UpdateConsumer(r.ctx, "IN", taken)
	require.NoError(t, err)
	r.publish("one", "x") // the durable is looked at again when something has been done
	err = w.err()
	require.ErrorIs(t, err, consumer.ErrWrongStore)
	assert.ErrorContains(t, err, "store another has taken it over")
	assert.Equal(t, "another", r.info().Config.Metadata["onefold.store"])
}

func TestBindOnlyWritesNoConfiguration(t *testing.T) {
	r := newRig(t)
	c := r.config(nothing)
	c.BindOnly, c.AckWait = true, 0
	err := r.start(c).err()
	require.ErrorIs(t, err, onefold.ErrInvalid)
	assert.ErrorContains(t, err, `no stream captures the dead-letter subject "onefold.dead.IN.work"`)
	r.stream(jetstream.StreamConfig{Name: "ONEFOLD_DEAD", Subjects: []string{"onefold.dead.>"}})
	err = r.start(c).err()
	require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
	assert.ErrorContains(t, err, "Config.BindOnly makes none")
	_, err = r.js.CreateConsumer(r.ctx, "IN", jetstream.ConsumerConfig{Durable: "work", AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 7})
	require.NoError(t, err)
	require.ErrorContains(t, r.start(c).err(), "MaxDeliver is 7")
	_, err = r.js.UpdateConsumer(r.ctx, "IN", jetstream.ConsumerConfig{Durable: "work", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	before := r.info().Config
	w := r.start(c)
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	assert.Equal(t, before, r.info().Config)
}
