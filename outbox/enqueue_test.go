package outbox_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/memstore"
)

func natsMessage(subject, id string) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: nats.Header{outbox.HeaderTransportID: {id}}}
}

// publish builds one message.
func publish(body string) func(*onefold.Effects) error {
	return func(fx *onefold.Effects) error {
		fx.Publish("out.a", []byte(body))
		return nil
	}
}

func openStore(t *testing.T) onefold.Store {
	t.Helper()
	st := memstore.New()
	t.Cleanup(func() { _ = st.Close(context.Background()) })
	return st
}

func TestScenario_O02_EnqueueAgainWithTheSameKeySendsOneMessage(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		existing, err := outbox.Enqueue(r.ctx, r.st, key("a"), time.Hour, publish("5"))
		require.NoError(t, err)
		assert.Equal(t, i > 0, existing)
	}
	r.run(outbox.Config{})
	r.emit("end", onefold.Effect{Target: "out.end"})
	r.await("settled", 2)
	assert.Len(t, r.stored("OUT"), 2)
}

func TestEnqueueWithOtherEffectsIsAMismatch(t *testing.T) {
	st := openStore(t)
	base := onefold.Effect{Target: "out.a", Payload: []byte("5"), Header: onefold.Header{"A": {"1"}, "B": {"2"}}, OrderKey: "k"}
	emit := func(e onefold.Effect) error {
		_, err := outbox.Enqueue(t.Context(), st, key("a"), 0, func(fx *onefold.Effects) error {
			fx.Emit(e)
			return nil
		})
		return err
	}
	require.NoError(t, emit(base))
	for name, change := range map[string]func(*onefold.Effect){
		"subject":   func(e *onefold.Effect) { e.Target = "out.b" },
		"payload":   func(e *onefold.Effect) { e.Payload = []byte("6") },
		"header":    func(e *onefold.Effect) { e.Header = onefold.Header{"A": {"1"}, "B": {"3"}} },
		"order key": func(e *onefold.Effect) { e.OrderKey = "l" },
		"timer":     func(e *onefold.Effect) { e.Timer = "t" },
	} {
		e := base
		change(&e)
		require.ErrorIs(t, emit(e), onefold.ErrMismatch, name)
	}
	later := base
	later.NotBefore = time.Now().Add(time.Hour)
	require.NoError(t, emit(later), "the time is not compared")

	for name, build := range map[string]func(*onefold.Effects){
		"result": func(fx *onefold.Effects) { fx.Result("x") },
		"write":  func(fx *onefold.Effects) { fx.Put("t", "k", nil) },
	} {
		_, err := outbox.Enqueue(t.Context(), st, key("a"), 0, func(fx *onefold.Effects) error {
			fx.Emit(base)
			build(fx)
			return nil
		})
		require.ErrorIs(t, err, onefold.ErrMismatch, name)
	}
}

func TestEnqueueOfARunningKeyIsBusy(t *testing.T) {
	st := openStore(t)
	grant, err := st.Begin(t.Context(), onefold.Request{Key: key("a"), Lease: time.Minute, Holder: onefold.Holder{Process: 1, Attempt: 1}})
	require.NoError(t, err)
	require.Equal(t, onefold.Granted, grant.Verdict)
	_, err = outbox.Enqueue(t.Context(), st, key("a"), 0, publish("5"))
	require.ErrorIs(t, err, onefold.ErrBusy)
}

func TestEnqueueBuildsAgainWhenStateMoves(t *testing.T) {
	st := openStore(t)
	runs := 0
	_, err := outbox.Enqueue(t.Context(), st, key("a"), 0, func(fx *onefold.Effects) error {
		runs++
		data, _, err := fx.Get(t.Context(), "count", "x")
		if err != nil {
			return err
		}
		if runs == 1 {
			c := &onefold.Commit{Entry: onefold.Entry{Writes: []onefold.Write{{Table: "count", Key: "x", Value: []byte("1")}}}}
			require.NoError(t, st.Commit(t.Context(), []*onefold.Commit{c}))
		}
		fx.Put("count", "x", append(data, '2'))
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, 2, runs)
	value, err := st.Read(t.Context(), "count", "x")
	require.NoError(t, err)
	assert.Equal(t, "12", string(value.Data))
}

// unsure is a store whose commits end in doubt first.
type unsure struct {
	onefold.Store
	answers errorQueue
	stores  bool // the first commit is stored in spite of its answer
}

func (s *unsure) Commit(ctx context.Context, batch []*onefold.Commit) error {
	if s.stores {
		s.stores = false
		if err := s.Store.Commit(ctx, batch); err != nil {
			return err
		}
	}
	if err := s.answers.take(); err != nil {
		return err
	}
	return s.Store.Commit(ctx, batch)
}

func TestEnqueueRepeatsUntilTheOutcomeIsKnown(t *testing.T) {
	for name, st := range map[string]*unsure{
		"stored":                     {stores: true, answers: errorQueue{errs: []error{onefold.ErrUnknown, onefold.ErrUnknown}}},
		"not stored":                 {answers: errorQueue{errs: []error{onefold.ErrUnknown}}},
		"a try that did nothing":     {stores: true, answers: errorQueue{errs: []error{onefold.ErrUnknown, onefold.ErrUnavailable}}},
		"its own commit in the way":  {stores: true, answers: errorQueue{errs: []error{onefold.ErrUnknown, onefold.ErrBusy}}},
		"full while it is not known": {answers: errorQueue{errs: []error{onefold.ErrUnknown, onefold.ErrFull}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st.Store = openStore(t)
				stores := st.stores
				existing, err := outbox.Enqueue(t.Context(), st, key("a"), 0, publish("5"))
				require.NoError(t, err)
				assert.Equal(t, stores, existing)
			})
		})
	}
}

func TestEnqueueTellsWhenTheOutcomeStaysUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		always := make([]error, 1000)
		for i := range always {
			always[i] = onefold.ErrUnknown
		}
		st := &unsure{Store: openStore(t), answers: errorQueue{errs: always}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := outbox.Enqueue(ctx, st, key("a"), 0, publish("5"))
		require.ErrorIs(t, err, onefold.ErrUnknown)
	})
}
