package outbox_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/memstore"
	"github.com/onefold-go/onefold/store/storetest"
)

// owe commits an entry with one effect.
func owe(st onefold.Store, id, payload string) error {
	key := onefold.Key{Scope: "test", ID: id}
	c := &onefold.Commit{Entry: onefold.Entry{Key: key, Outcome: onefold.Succeeded, Retain: time.Hour,
		Effects: []onefold.Effect{{ID: key.EffectID(0), Kind: onefold.KindMessage, Target: "out", Payload: []byte(payload)}}}}
	if err := st.Commit(context.Background(), []*onefold.Commit{c}); err != nil {
		return err
	}
	return c.Err
}

func ExampleNewRehearsal() {
	ctx, st := context.Background(), memstore.New()
	defer func() { _ = st.Close(ctx) }()
	if err := owe(st, "order-7", "invoice"); err != nil {
		fmt.Println(err)
		return
	}
	r, err := outbox.NewRehearsal(st, outbox.Config{},
		func(m *nats.Msg) (*jetstream.PubAck, error) {
			fmt.Printf("%s to %s\n", m.Data, m.Subject)
			return &jetstream.PubAck{Stream: "OUT", Sequence: 1}, nil
		},
		func(*jetstream.PubAck) (string, bool) { return "", false })
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = r.Close() }()
	n, err := r.Fetch(ctx, 10)
	fmt.Println(n, err)
	fmt.Println(r.Finish(ctx))
	stats, _ := st.Stats(ctx)
	fmt.Println(stats.Waiting, "waiting")
	// Output:
	// invoice to out
	// 1 <nil>
	// <nil>
	// 0 waiting
}

// rehearsed is a relay on a store with one row, and how its server answers.
type rehearsed struct {
	*outbox.Rehearsal
	st     *memstore.Store
	clock  *storetest.Clock
	data   *memstore.Data
	ack    *jetstream.PubAck
	err    error
	has    string // transport ID of what the stream has at the position of any answer
	sent   int
	parked []string
}

func rehearse(t *testing.T, o onefold.Observer) *rehearsed {
	t.Helper()
	r := &rehearsed{clock: storetest.NewClock(), ack: &jetstream.PubAck{Stream: "OUT", Sequence: 1}}
	r.data = memstore.NewData(r.clock.Clock())
	var err error
	r.st, err = memstore.Open(r.data, &memstore.Options{Clock: r.clock.Clock()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.st.Close(context.Background())) })
	require.NoError(t, owe(r.st, "one", "x"))
	o.RowParked = func(e onefold.RowEvent) { r.parked = append(r.parked, e.Err.Error()) }
	r.Rehearsal, err = outbox.NewRehearsal(r.st, outbox.Config{MaxAttempts: 2, Clock: r.clock.Clock(), Observer: &o},
		func(*nats.Msg) (*jetstream.PubAck, error) {
			r.sent++
			if r.err != nil {
				return nil, r.err
			}
			return r.ack, nil
		},
		func(*jetstream.PubAck) (string, bool) { return r.has, r.has != "" })
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	return r
}

// round fetches, finishes, and lets delays pass.
func (r *rehearsed) round(t *testing.T) onefold.Stats {
	t.Helper()
	_, err := r.Fetch(t.Context(), 10)
	require.NoError(t, err)
	require.NoError(t, r.Finish(t.Context()))
	r.clock.Advance(20 * time.Second)
	stats, err := r.st.Stats(t.Context())
	require.NoError(t, err)
	return stats
}

func TestARehearsalJudgesAnswersAsARelayDoes(t *testing.T) {
	t.Run("a row without an answer is sent again and uses up no attempt", func(t *testing.T) {
		r := rehearse(t, onefold.Observer{})
		r.err = nats.ErrTimeout
		for range 4 {
			assert.EqualValues(t, 1, r.round(t).Waiting)
		}
		r.err = nil
		assert.Zero(t, r.round(t).Waiting)
		assert.Equal(t, 5, r.sent)
	})
	t.Run("a row that is refused is parked after its attempts", func(t *testing.T) {
		r := rehearse(t, onefold.Observer{})
		r.err = &jetstream.APIError{Code: 400, ErrorCode: 10060, Description: "no"}
		assert.Zero(t, r.round(t).Parked)
		assert.EqualValues(t, 1, r.round(t).Parked)
		assert.Len(t, r.parked, 1)
	})
	t.Run("a duplicate that cannot be one is looked for", func(t *testing.T) {
		r := rehearse(t, onefold.Observer{})
		r.ack.Duplicate = true
		assert.EqualValues(t, 1, r.round(t).Parked, "the stream has dropped it")
		r = rehearse(t, onefold.Observer{})
		r.ack.Duplicate, r.has = true, onefold.Key{Scope: "test", ID: "one"}.EffectID(0)
		stats := r.round(t)
		assert.Zero(t, stats.Parked+stats.Waiting, "the stream has it")
	})
}

func TestARehearsalOfARelayEndsWhereItIsCutOff(t *testing.T) {
	r := rehearse(t, onefold.Observer{Published: func(onefold.RowEvent) { runtime.Goexit() }})
	_, err := r.Fetch(t.Context(), 1)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Finish(context.Background())
		assert.Fail(t, "it has returned")
	}()
	<-done
	stats, err := r.st.Stats(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, stats.Waiting, "the row is still there")
}

func TestARehearsalOfARelayOpensAnotherFeedWhenItsOwnIsLost(t *testing.T) {
	r := rehearse(t, onefold.Observer{})
	_, err := r.Fetch(t.Context(), 1)
	require.NoError(t, err)
	r.clock.Advance(outbox.DefaultFeedLease + time.Second)
	require.ErrorIs(t, r.Finish(t.Context()), onefold.ErrLost)
	assert.Zero(t, r.round(t).Waiting)
	assert.Equal(t, 2, r.sent)
}

func TestARehearsalOfARelayRefusesWhatItCannotDo(t *testing.T) {
	st := memstore.New()
	t.Cleanup(func() { assert.NoError(t, st.Close(context.Background())) })
	publish := func(*nats.Msg) (*jetstream.PubAck, error) { return nil, nats.ErrTimeout }
	read := func(*jetstream.PubAck) (string, bool) { return "", false }
	for name, c := range map[string]struct {
		st      onefold.Store
		config  outbox.Config
		publish func(*nats.Msg) (*jetstream.PubAck, error)
	}{
		"calls":         {st, outbox.Config{Functions: map[string]outbox.Function{"f": {}}}, publish},
		"no server":     {st, outbox.Config{}, nil},
		"no store":      {nil, outbox.Config{}, publish},
		"a bad setting": {st, outbox.Config{Window: -1}, publish},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := outbox.NewRehearsal(c.st, c.config, c.publish, read)
			assert.ErrorIs(t, err, onefold.ErrInvalid)
		})
	}
}
