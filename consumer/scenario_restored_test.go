package consumer_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/boltstore"
)

// relayed is a relay that tells of each row that its stream has.
func (r *rig) relayed(st onefold.Store) (*running, <-chan onefold.RowEvent) {
	r.t.Helper()
	sent := make(chan onefold.RowEvent, 64)
	relay, err := outbox.NewRelay(st, outbox.Config{JetStream: r.js, Observer: &onefold.Observer{Settled: func(e onefold.RowEvent) { sent <- e }}})
	require.NoError(r.t, err)
	return r.run(relay), sent
}

// sentOnce serves "one" and "two" with a store, with a relay for them, and closes it. It returns a backup that was made
// when the effect of "one" had not left and "two" had not come, and the durable as it was at that time.
func (r *rig) sentOnce(dir string, c consumer.Config) (backup *bytes.Buffer, then jetstream.ConsumerConfig) {
	r.t.Helper()
	backup = &bytes.Buffer{}
	closed(r.t.(*testing.T), dir, func(st onefold.Store) {
		w := r.startOn(r.js, st, c)
		r.publish("one", "x")
		r.awaitCount("acked", 1)
		require.NoError(r.t, st.(*boltstore.Store).Backup(r.ctx, backup))
		then = r.info().Config
		r.publish("two", "x")
		r.awaitCount("acked", 2)
		relay, sent := r.relayed(st)
		for range 2 {
			assert.False(r.t, (<-sent).Duplicate)
		}
		r.settled()
		w.end()
		relay.end()
	})
	return backup, then
}

func TestScenario_O29_ARestoredOldCopyIsRefusedByNameAndIfWantedSendsAgainUnderTheSameIDs(t *testing.T) {
	for name, killed := range map[string]bool{"the store was closed in order": false, "its process was killed": true} {
		t.Run(name, func(t *testing.T) {
			r, restored := newRig(t), t.TempDir()
			r.output()
			c := r.config(func(_ context.Context, m *onefold.Message, fx *onefold.Effects) error {
				fx.Publish("out.a", m.Header.Get(onefold.HeaderID))
				return nil
			})
			c.RelayWithin = -1
			backup, then := r.sentOnce(t.TempDir(), c)
			require.NoError(t, boltstore.Restore(r.ctx, backup, restored))
			if killed { // so that no end could be noted
				_, err := r.js.UpdateConsumer(r.ctx, "IN", then)
				require.NoError(t, err)
			}
			closed(t, restored, func(st onefold.Store) {
				err := r.startOn(r.js, st, c).err()
				require.ErrorIs(t, err, consumer.ErrWrongStore)
				assert.ErrorContains(t, err, "older copy")
				assert.ErrorContains(t, err, "set Config.AdoptDurable for one start", "the remedy")

				c.AdoptDurable = true
				w := r.startOn(r.js, st, c)
				relay, sent := r.relayed(st)
				wanted := map[string]bool{} // ID, and whether the stream has it from before
				for id, before := range map[string]bool{"one": true, "two": true, "three": false} {
					wanted[onefold.Key{Scope: "IN/work", ID: id}.EffectID(0)] = before
				}
				r.publish("two", "x") // a producer says it again, and the copy does not know it
				r.publish("three", "x")
				got := map[string]bool{}
				for range wanted {
					e := <-sent
					got[e.ID] = e.Duplicate
				}
				assert.Equal(t, wanted, got)
				r.settled()
				w.end()
				relay.end()
			})
			assert.Equal(t, 3, r.stored("OUT"), "nothing is stored twice, and nothing stalls")
		})
	}
}
