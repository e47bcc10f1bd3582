package onefoldtest_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/onefoldtest"
)

// survived is what Survives says of a handler.
func survived(t *testing.T, handler onefold.Handler) string {
	t.Helper()
	return judged(t, func(tb testing.TB) {
		kit := onefoldtest.New(tb, consumer.Config{Handler: handler})
		kit.Survives(kit.Message("in", "a", 1))
	})
}

func TestARerunAsksForTheSameKindOfCallAndLifeOfState(t *testing.T) {
	runs := 0
	for name, c := range map[string]struct {
		handler onefold.Handler
		want    string
	}{
		"at least once or at most once": {func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			if runs++; runs%2 == 0 {
				fx.Call("charge", 1)
			} else {
				fx.CallOnce("charge", 1)
			}
			return nil
		}, "effect 0, at most once: true"},
		"life of state": {func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			runs++
			fx.PutFor("t", "k", []byte("v"), time.Duration(1+runs%2)*time.Hour)
			return nil
		}, `state "t"/"k" is kept for: 1h0m0s`},
		"state with and without an end": {func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			if runs++; runs%2 == 0 {
				fx.Put("t", "k", []byte("v"))
			} else {
				fx.PutFor("t", "k", []byte("v"), time.Hour)
			}
			return nil
		}, `state "t"/"k" is kept for: 1h0m0s`},
	} {
		t.Run(name, func(t *testing.T) {
			got := survived(t, c.handler)
			assert.Contains(t, got, "asked for something else than run 1")
			assert.Contains(t, got, c.want)
		})
	}
}

func TestRunsThatReadTheSameInAnotherOrderAreCompared(t *testing.T) {
	runs := 0
	read := func(ctx context.Context, fx *onefold.Effects) error {
		runs++
		for i := range 2 { // as the order of a map does
			if _, err := count(ctx, fx, "numbers", strconv.Itoa((i+runs)%2)); err != nil {
				return err
			}
		}
		return nil
	}
	assert.Empty(t, survived(t, func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		return read(ctx, fx)
	}), "the order alone is no difference")
	assert.Contains(t, survived(t, func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		fx.Publish("out", runs)
		return read(ctx, fx)
	}), "asked for something else than run 1:\n  - effect 0, payload: ")
}

func TestCallsAreComparedBetweenRunsThatReadTheSameInAnotherOrder(t *testing.T) {
	runs := 0
	got := judged(t, func(tb testing.TB) {
		pay := onefoldtest.NewProbe("pay")
		kit := onefoldtest.New(tb, consumer.Config{Handler: func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			runs++
			for i := range 2 {
				if _, _, err := fx.Get(ctx, "numbers", strconv.Itoa((i+runs)%2)); err != nil {
					return err
				}
			}
			pay.Called(strconv.Itoa(runs))
			return nil
		}}, pay)
		kit.Survives(kit.Message("in", "a", 1))
	})
	assert.Contains(t, got, `passed other idempotency keys to "pay" in each`)
}
