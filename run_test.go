package onefold_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

type partFunc func(ctx context.Context) error

func (f partFunc) Run(ctx context.Context) error { return f(ctx) }

func TestPartsStopInTheOrderGiven(t *testing.T) {
	var mu sync.Mutex
	var stopped []string
	part := func(name string) onefold.Part {
		return partFunc(func(ctx context.Context) error {
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			stopped = append(stopped, name)
			return nil
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, onefold.Run(ctx, part("consumer"), part("second"), part("relay")))
	assert.Equal(t, []string{"consumer", "second", "relay"}, stopped)
}

func TestOnePartsEndStopsTheOthersAndIsReported(t *testing.T) {
	broken := errors.New("broken")
	others := 0
	err := onefold.Run(context.Background(),
		partFunc(func(ctx context.Context) error { <-ctx.Done(); others++; return nil }),
		partFunc(func(context.Context) error { return broken }))
	assert.ErrorIs(t, err, broken)
	assert.Equal(t, 1, others)
}

func TestRunWithoutPartsReturns(t *testing.T) {
	require.NoError(t, onefold.Run(context.Background()))
}

func TestANilPartIsRefusedBeforeAnythingRuns(t *testing.T) {
	ran := false
	err := onefold.Run(context.Background(), partFunc(func(context.Context) error { ran = true; return nil }), nil)
	require.ErrorIs(t, err, onefold.ErrInvalid)
	assert.ErrorContains(t, err, "part 1 is nil")
	assert.False(t, ran)
}

func TestWhatAPersonHasToKnowIsAWarning(t *testing.T) {
	var out bytes.Buffer
	obs := onefold.SlogObserver(slog.New(slog.NewTextHandler(&out, nil)))
	obs.Duplicate(onefold.DeliveryEvent{Outcome: onefold.Succeeded})
	assert.Empty(t, out.String())
	obs.Duplicate(onefold.DeliveryEvent{Outcome: onefold.DeadLettered})
	assert.Contains(t, out.String(), `level=WARN msg="acked as a duplicate of a dead letter"`)
	obs.State(onefold.StateEvent{To: "waiting", Err: errors.New("disk is full")})
	assert.Contains(t, out.String(), `level=WARN msg=state`)
	obs.DeadLettered(onefold.DeliveryEvent{Class: onefold.ClassPanic, Err: &onefold.PanicError{Value: "boom", Stack: []byte("main.go:7")}})
	assert.Contains(t, out.String(), "main.go:7", "a panic without its place helps nobody")
}

func TestTheSlogObserverNeverLogsAnIDRaw(t *testing.T) {
	var out bytes.Buffer
	obs := onefold.SlogObserver(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	delivery := onefold.DeliveryEvent{Key: onefold.Key{Scope: "S", ID: "evil\nid"}, Class: onefold.ClassHandler, Err: errors.New("boom")}
	for _, f := range []func(onefold.DeliveryEvent){obs.Received, obs.Claimed, obs.Handled, obs.Committed, obs.Acked, obs.Duplicate,
		obs.Followed, obs.Retried, obs.DeadLettered, obs.GivenBack, obs.Dropped, obs.Lost} {
		f(delivery)
	}
	row := onefold.RowEvent{Key: delivery.Key, Target: "t", Reason: "because"}
	for _, f := range []func(onefold.RowEvent){obs.Fetched, obs.Published, obs.Settled, obs.RowDelayed, obs.RowParked,
		obs.RowResumed, obs.RowDiscarded} {
		f(row)
	}
	obs.State(onefold.StateEvent{Part: "relay", From: "new", To: "running"})
	assert.Equal(t, 20, bytes.Count(out.Bytes(), []byte("\n")), "one line an event")
	assert.Contains(t, out.String(), `level=WARN msg="dead letter"`)
	assert.Contains(t, out.String(), "boom")
}

func ExampleRun() {
	ctx, cancel := context.WithCancel(context.Background())
	consumer := partFunc(func(ctx context.Context) error { <-ctx.Done(); fmt.Println("consumer ended"); return nil })
	relay := partFunc(func(ctx context.Context) error { <-ctx.Done(); fmt.Println("relay ended"); return nil })
	cancel()
	fmt.Println(onefold.Run(ctx, consumer, relay))
	// Output:
	// consumer ended
	// relay ended
	// <nil>
}

func ExampleSlogObserver() {
	var out bytes.Buffer
	plain := slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	obs := onefold.SlogObserver(slog.New(plain))
	obs.State(onefold.StateEvent{Part: "relay", From: "new", To: "running"})
	fmt.Print(out.String())
	// Output: level=INFO msg=state part=relay from=new to=running
}

func TestAPartThatExitsItsGoroutineIsAnError(t *testing.T) {
	require.ErrorIs(t, onefold.Run(t.Context(), partFunc(func(context.Context) error { runtime.Goexit(); return nil })), onefold.ErrGoexit)
}

func TestWorkInTheBackgroundIsLoggedAndItsFailuresAreWarnings(t *testing.T) {
	var b bytes.Buffer
	o := onefold.SlogObserver(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
	o.Upkeep(onefold.UpkeepEvent{Work: "seal", Records: 7})
	o.Upkeep(onefold.UpkeepEvent{Work: "merge", Err: errors.New("no room")})
	assert.Contains(t, b.String(), "level=DEBUG")
	assert.Contains(t, b.String(), "work=seal records=7")
	assert.Contains(t, b.String(), `level=WARN`)
	assert.Contains(t, b.String(), `err="no room"`)
}
