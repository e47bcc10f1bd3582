package outbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
)

// ids are the own and the transport IDs of messages.
func ids(messages []*jetstream.RawStreamMsg) (own, transport []string) {
	for _, m := range messages {
		own = append(own, m.Header.Get(onefold.HeaderID))
		transport = append(transport, m.Header.Get(outbox.HeaderTransportID))
	}
	return own, transport
}

func TestATimerIsReplacedAndCancelledByWorkOfAnotherKey(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		far := time.Now().Add(24 * time.Hour)
		r.emit("placed 1", onefold.Effect{Target: "out.cancelled", Timer: "overdue/1", NotBefore: far})
		r.emit("placed 2", onefold.Effect{Target: "out.replaced", Timer: "overdue/2", NotBefore: far})
		r.emit("placed 3", onefold.Effect{Target: "out.kept", Timer: "overdue/3"})
		r.emit("paid 1", onefold.Effect{Timer: "overdue/1", Cancel: true})
		r.emit("paid 4", onefold.Effect{Timer: "overdue/4", Cancel: true}) // was never set
		r.emit("changed 2", onefold.Effect{Target: "out.new", Timer: "overdue/2"})

		r.run(quick)
		r.await("settled", 2)
		sent := r.stored("OUT")
		require.Len(t, sent, 2)
		own, transport := ids(sent)
		want := []string{key("placed 3").TimerID("overdue/3"), key("changed 2").TimerID("overdue/2")}
		assert.ElementsMatch(t, want, own)
		assert.Equal(t, own, transport)
		for _, id := range []string{"placed 1", "placed 2"} {
			record, err := r.st.Wait(r.ctx, key(id))
			require.NoError(t, err)
			assert.Zero(t, record.Unsettled)
		}
	})
}

func TestATimerThatIsSetAgainAfterItHasLeftIsNoDuplicate(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		r.run(quick)
		for n, id := range []string{"a", "b", "c"} {
			r.emit(id, onefold.Effect{Target: "out.a", Payload: []byte(id), Timer: "overdue"})
			r.await("settled", n+1)
		}
		own, _ := ids(r.stored("OUT"))
		assert.Equal(t, []string{key("a").TimerID("overdue"), key("b").TimerID("overdue"), key("c").TimerID("overdue")}, own)
		for i, e := range r.events("settled") {
			assert.Equal(t, own[i], e.row.ID)
		}
	})
}

func TestTimersOfOtherScopesStay(t *testing.T) {
	r := newRig(t)
	r.emit("a", onefold.Effect{Target: "out.a", Timer: "overdue"})
	for _, scope := range []string{"other", "tes", "test\x00"} {
		_, err := outbox.Enqueue(r.ctx, r.st, onefold.Key{Scope: scope, ID: "b"}, 0, func(fx *onefold.Effects) error {
			fx.Emit(onefold.Effect{Timer: "overdue", Cancel: true})
			return nil
		})
		require.NoError(t, err)
	}
	r.run(quick)
	r.await("settled", 1)
	assert.Len(t, r.stored("OUT"), 1)
}

func TestATimerOfACallHasAKeyOfItsOwnAndIsFoundByItWhenItIsParked(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"a", "b"} {
		r.emit(id, onefold.Effect{Kind: onefold.KindCall, Target: "f", Timer: "timer of " + id})
	}
	keys := make(chan string, 2)
	stop := r.run(with(outbox.Function{Do: func(_ context.Context, c outbox.Call) error {
		keys <- c.Key
		return onefold.Permanent(assert.AnError)
	}}))
	r.await("parked", 2)
	require.NoError(t, stop())
	id := key("a").TimerID("timer of a")
	assert.ElementsMatch(t, []string{id, key("b").TimerID("timer of b")}, []string{<-keys, <-keys})
	for item, err := range outbox.Parked(r.ctx, r.st, outbox.Choice{IDs: []string{id}}) {
		require.NoError(t, err)
		assert.Equal(t, key("a"), item.Row.Key)
	}
	n, err := outbox.Discard(r.ctx, r.st, outbox.Choice{IDs: []string{id}}, "not needed", nil)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}

// The store ends the row of a setting that is out when another one takes its place; its relay must bear that.
func TestATimerThatIsReplacedWhileItIsOutEndsWithoutHarm(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		entered, leave := make(chan struct{}, 8), make(chan struct{})
		r.emit("a", onefold.Effect{Kind: onefold.KindCall, Target: "f", Timer: "overdue"})
		r.run(with(outbox.Function{Do: func(_ context.Context, c outbox.Call) error {
			if c.Source == key("a") {
				entered <- struct{}{}
				<-leave
				return assert.AnError // so that the row of a would come again
			}
			return nil
		}}))
		<-entered
		r.emit("b", onefold.Effect{Target: "out.b", Timer: "overdue"})
		close(leave)
		r.emit("c", onefold.Effect{Target: "out.c"})
		for _, id := range []string{"a", "b", "c"} {
			_, err := r.st.Wait(r.ctx, key(id))
			require.NoError(t, err)
		}
		assert.Len(t, r.stored("OUT"), 2)
		assert.Empty(t, entered)
	})
}
