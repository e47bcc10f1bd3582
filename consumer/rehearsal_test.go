package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/store/memstore"
	"github.com/onefold-go/onefold/store/storetest"
)

// orderMessage is a message at a position.
func orderMessage(id string, position uint64) *onefold.Message {
	return &onefold.Message{Subject: "orders.new", Data: []byte(`{}`), Header: onefold.Header{onefold.HeaderID: {id}},
		Sequence: position, Time: time.Unix(1_900_000_000, 0)}
}

func ExampleNewRehearsal() {
	st := memstore.New()
	defer func() { _ = st.Close(context.Background()) }()
	r, err := consumer.NewRehearsal(st, consumer.Config{Stream: "ORDERS", Name: "billing",
		Handler: func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			fmt.Println("running", fx.Key())
			return nil
		}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	fmt.Printf("%+v\n", r.Deliver(orderMessage("order-7", 1))())
	fmt.Printf("%+v\n", r.Deliver(orderMessage("order-7", 2))())
	// Output:
	// running ORDERS/billing/order-7
	// {Acked:true Again:false Delay:0s}
	// {Acked:true Again:false Delay:0s}
}

// rehearse makes a rehearsal on a store in memory.
func rehearse(t *testing.T, cfg consumer.Config) (*consumer.Rehearsal, *memstore.Store) {
	t.Helper()
	st := memstore.New()
	t.Cleanup(func() { assert.NoError(t, st.Close(context.Background())) })
	cfg.Stream, cfg.Name = "ORDERS", "billing"
	r, err := consumer.NewRehearsal(st, cfg)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r, st
}

func TestARehearsalDecidesAsAConsumerDoes(t *testing.T) {
	const retry = 300 * time.Millisecond
	for name, c := range map[string]struct {
		how  func() error
		want consumer.Answer // without Delay
	}{
		"done":         {func() error { return nil }, consumer.Answer{Acked: true}},
		"failed":       {func() error { return errors.New("no") }, consumer.Answer{Again: true}},
		"panicked":     {func() error { panic("no") }, consumer.Answer{Again: true}},
		"exited":       {func() error { runtime.Goexit(); return nil }, consumer.Answer{Again: true}},
		"given up":     {func() error { return onefold.Permanent(errors.New("no")) }, consumer.Answer{}},
		"chosen delay": {func() error { return onefold.RetryAfter(retry, errors.New("no")) }, consumer.Answer{Again: true}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := rehearse(t, consumer.Config{RetryMin: retry, RetryMax: retry,
				Handler: func(context.Context, *onefold.Message, *onefold.Effects) error { return c.how() }})
			got := r.Deliver(orderMessage("order-7", 1))()
			assert.Equal(t, c.want.Again, got.Delay > 0)
			got.Delay = 0
			assert.Equal(t, c.want, got)
		})
	}
}

func TestARehearsalRunsAgainWhenStateHasMoved(t *testing.T) {
	var st *memstore.Store
	runs := 0
	r, st := rehearse(t, consumer.Config{Handler: func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		if _, _, err := fx.Get(ctx, "t", "k"); err != nil {
			return err
		}
		if runs++; runs == 1 { // somebody else writes in between
			return st.Commit(ctx, []*onefold.Commit{{Entry: onefold.Entry{Writes: []onefold.Write{{Table: "t", Key: "k", Value: []byte("1")}}}}})
		}
		return nil
	}})
	assert.True(t, r.Deliver(orderMessage("order-7", 1))().Acked)
	assert.Equal(t, 2, runs)
}

func TestARehearsalAnswersADeadLetterWhenItIsSent(t *testing.T) {
	r, st := rehearse(t, consumer.Config{Handler: func(context.Context, *onefold.Message, *onefold.Effects) error {
		return onefold.Permanent(errors.New("no"))
	}})
	answer := r.Deliver(orderMessage("order-7", 1))
	assert.Zero(t, answer())
	ctx := t.Context()
	feed, err := st.Feed(ctx, time.Minute)
	require.NoError(t, err)
	rows, err := feed.Next(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, st.Settle(ctx, []onefold.Settlement{{Row: rows[0], State: onefold.Sent}}))
	r.Wait()
	assert.True(t, answer().Acked)
}

func TestAnObserverCanEndARehearsalAtAnyPoint(t *testing.T) {
	exit := func(onefold.DeliveryEvent) { runtime.Goexit() }
	for name, c := range map[string]struct {
		o    onefold.Observer
		runs int
	}{
		"received":  {onefold.Observer{Received: exit}, 0},
		"claimed":   {onefold.Observer{Claimed: exit}, 0},
		"handled":   {onefold.Observer{Handled: exit}, 1},
		"committed": {onefold.Observer{Committed: exit}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			r, _ := rehearse(t, consumer.Config{Observer: &c.o, Handler: func(context.Context, *onefold.Message, *onefold.Effects) error {
				runs++
				return nil
			}})
			assert.Zero(t, r.Deliver(orderMessage("order-7", 1))())
			assert.Equal(t, c.runs, runs)
		})
	}
}

func TestARehearsalRefusesWhatAConsumerRefuses(t *testing.T) {
	_, err := consumer.NewRehearsal(nil, consumer.Config{})
	require.ErrorIs(t, err, onefold.ErrInvalid)
	st := memstore.New()
	defer func() { assert.NoError(t, st.Close(context.Background())) }()
	_, err = consumer.NewRehearsal(st, consumer.Config{Stream: "ORDERS", Name: "billing"})
	require.ErrorContains(t, err, "Config.Handler is nil")
}

func TestARehearsalKeepsTheFloorThatItIsTold(t *testing.T) {
	runs := 0
	handler := func(context.Context, *onefold.Message, *onefold.Effects) error { runs++; return nil }
	clock := storetest.NewClock()
	st, err := memstore.Open(memstore.NewData(clock.Clock()), &memstore.Options{Clock: clock.Clock()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, st.Close(context.Background())) })
	start := func() *consumer.Rehearsal {
		r, err := consumer.NewRehearsal(st, consumer.Config{Stream: "ORDERS", Name: "billing", Handler: handler, Retention: time.Hour, Clock: clock.Clock()})
		require.NoError(t, err)
		t.Cleanup(r.Close)
		return r
	}
	r := start()
	first, second := orderMessage("one", 1), orderMessage("two", 2)
	assert.True(t, r.Deliver(first)().Acked)
	require.NoError(t, r.MoveFloor(t.Context(), 1))
	assert.True(t, r.Deliver(second)().Acked)
	clock.Advance(2 * time.Hour)
	assert.True(t, r.Deliver(first)().Acked)
	assert.True(t, start().Deliver(first)().Acked, "the next one takes it up")
	assert.Equal(t, 2, runs, "the floor answers for a message whose record is over")
	assert.True(t, r.Deliver(second)().Acked)
	assert.Equal(t, 3, runs, "the floor has not reached this one")
}
