package onefoldtest_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
	"github.com/onefold-go/onefold/onefoldtest"
)

// A call of a run that ends badly has been made all the same.
func TestCallsOfRunsThatDoNotCompleteAreJudgedToo(t *testing.T) {
	fresh := 0
	random := func() string { fresh++; return "random " + strconv.Itoa(fresh) }
	no := errors.New("no")
	for name, c := range map[string]struct {
		handler func(fx *onefold.Effects, call func(key string)) error
		caught  bool
	}{
		"a fresh key, then always an error":   {func(_ *onefold.Effects, call func(string)) error { call(random()); return no }, true},
		"a fresh key, then Permanent":         {func(_ *onefold.Effects, call func(string)) error { call(random()); return onefold.Permanent(no) }, true},
		"a fresh key, then a panic":           {func(_ *onefold.Effects, call func(string)) error { call(random()); panic(no) }, true},
		"a fresh key, an error, then success": {func(fx *onefold.Effects, call func(string)) error { call(random()); return failsFirst(fx) }, true},
		"a stable and a fresh key, then an error": {func(fx *onefold.Effects, call func(string)) error {
			call(fx.IdempotencyKey("pay"))
			call(random())
			return no
		}, true},
		"a key of the attempt": {func(fx *onefold.Effects, call func(string)) error {
			call(fx.IdempotencyKey(strconv.Itoa(fx.Attempt())))
			return failsFirst(fx)
		}, true},
		"a stable key, then always an error": {func(fx *onefold.Effects, call func(string)) error { call(fx.IdempotencyKey("pay")); return no }, false},
		"a stable key, then a panic":         {func(fx *onefold.Effects, call func(string)) error { call(fx.IdempotencyKey("pay")); panic(no) }, false},
		"an error between two stable keys": {func(fx *onefold.Effects, call func(string)) error {
			call(fx.IdempotencyKey("pay"))
			if err := failsFirst(fx); err != nil {
				return err
			}
			call(fx.IdempotencyKey("book"))
			return nil
		}, false},
		"an error before any call": {func(fx *onefold.Effects, call func(string)) error {
			if err := failsFirst(fx); err != nil {
				return err
			}
			call(fx.IdempotencyKey("pay"))
			return nil
		}, false},
		"stable keys from goroutines, in any order": {func(fx *onefold.Effects, call func(string)) error {
			var calls sync.WaitGroup
			for _, name := range []string{"pay", "book", "ship"} {
				calls.Go(func() { call(fx.IdempotencyKey(name)) })
			}
			calls.Wait()
			return failsFirst(fx)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := judged(t, func(tb testing.TB) {
				pay := onefoldtest.NewProbe("pay")
				kit := onefoldtest.New(tb, consumer.Config{MaxAttempts: 3, Handler: func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
					return c.handler(fx, pay.Called)
				}}, pay)
				m := kit.Message("in", "a", 1)
				kit.Survives(m)
			})
			if !c.caught {
				assert.Empty(t, got)
				return
			}
			assert.Contains(t, got, `passed other idempotency keys to "pay"`)
		})
	}
}

// failsFirst fails the first attempt of a key.
func failsFirst(fx *onefold.Effects) error {
	if fx.Attempt() == 1 {
		return errors.New("not yet")
	}
	return nil
}

func TestAnErrorAfterAFreshKeyIsCaughtByRunAlone(t *testing.T) {
	fresh := 0
	got := judged(t, func(tb testing.TB) {
		pay := onefoldtest.NewProbe("pay")
		kit := onefoldtest.New(tb, consumer.Config{Handler: func(_ context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			fresh++
			pay.Called(strconv.Itoa(fresh))
			return failsFirst(fx)
		}}, pay)
		kit.Run(kit.Message("in", "a", 1))
	})
	assert.Contains(t, got, `passed other idempotency keys to "pay" in each: run 1 passed [1], run 2 [2]`)
}

// payOnce calls under a stable key unless the state says that it is paid.
func payOnce(ctx context.Context, fx *onefold.Effects, call func(key string)) error {
	_, paid, err := fx.Get(ctx, "orders", "paid")
	if err != nil || paid {
		return err
	}
	call(fx.IdempotencyKey("pay"))
	return nil
}

func TestRunsThatHaveReadOtherStateMayCallOthers(t *testing.T) {
	fails := func(how func() error) func(context.Context, *onefold.Effects, func(string)) error {
		return func(ctx context.Context, fx *onefold.Effects, call func(string)) error {
			data, _, err := fx.Get(ctx, "orders", "paid")
			call(fx.IdempotencyKey(string(data)))
			if err != nil || fx.Attempt() > 1 {
				return err
			}
			return how()
		}
	}
	for name, handler := range map[string]func(context.Context, *onefold.Effects, func(string)) error{
		"no call after a conflict": payOnce,
		"a key from what was read": fails(func() error { return nil }),
		"then an error":            fails(func() error { return errors.New("not yet") }),
		"then a panic":             fails(func() error { panic("no") }),
		"then the end of the goroutine": fails(func() error {
			runtime.Goexit()
			return nil
		}),
	} {
		t.Run(name, func(t *testing.T) {
			pay := onefoldtest.NewProbe("pay")
			kit := onefoldtest.New(t, consumer.Config{Handler: func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
				return handler(ctx, fx, pay.Called)
			}}, pay)
			early, late := kit.Message("in", "a", 1), kit.Message("in", "b", 1)
			if name == "no call after a conflict" || name == "a key from what was read" {
				kit.During(early, func() { kit.Seed("orders", "paid", 1) })
			} else {
				kit.Deliver(early)
				kit.Seed("orders", "paid", 1)
			}
			kit.Run(early)
			kit.Succeeded(early)
			kit.Survives(late)
		})
	}
}

func TestRunsThatHaveReadTheSameAreComparedHoweverFarTheyCame(t *testing.T) {
	fresh := 0
	got := judged(t, func(tb testing.TB) {
		pay := onefoldtest.NewProbe("pay")
		kit := onefoldtest.New(tb, consumer.Config{Handler: func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
			if err := payOnce(ctx, fx, func(string) { fresh++; pay.Called(strconv.Itoa(fresh)) }); err != nil {
				return err
			}
			if err := failsFirst(fx); err != nil {
				return err
			}
			_, err := count(ctx, fx, "numbers", "orders")
			return err
		}}, pay)
		kit.Run(kit.Message("in", "a", 1))
	})
	assert.Contains(t, got, `run 1 passed [1], run 2 [2]`)
}
