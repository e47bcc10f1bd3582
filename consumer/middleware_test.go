package consumer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

func timeout(t *testing.T, d time.Duration) consumer.Middleware {
	t.Helper()
	m, err := consumer.Timeout(d)
	require.NoError(t, err)
	return m
}

func giveUpAfter(t *testing.T, n int) consumer.Middleware {
	t.Helper()
	m, err := consumer.GiveUpAfter(n)
	require.NoError(t, err)
	return m
}

func chain(t *testing.T, h onefold.Handler, ms ...consumer.Middleware) onefold.Handler {
	t.Helper()
	h, err := consumer.Chain(h, ms...)
	require.NoError(t, err)
	return h
}

func TestTheFirstMiddlewareOfAChainIsTheOutermost(t *testing.T) {
	var order []string
	traced := func(name string) consumer.Middleware {
		return func(next onefold.Handler) onefold.Handler {
			return func(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
				order = append(order, name+" begins")
				defer func() { order = append(order, name+" ends") }()
				return next(ctx, msg, fx)
			}
		}
	}
	h := chain(t, func(context.Context, *onefold.Message, *onefold.Effects) error {
		order = append(order, "handler")
		return nil
	}, traced("a"), traced("b"))
	require.NoError(t, handleWith(h, &onefold.Message{}))
	assert.Equal(t, []string{"a begins", "b begins", "handler", "b ends", "a ends"}, order)
	require.NoError(t, handleWith(chain(t, consumer.Ignore), &onefold.Message{}), "without a middleware")
}

func TestBadMiddlewareIsRefused(t *testing.T) {
	same := func(next onefold.Handler) onefold.Handler { return next }
	for want, err := range map[string]error{
		"the handler is nil":               second(consumer.Chain(nil, same)),
		"middleware 1 is nil":              second(consumer.Chain(consumer.Ignore, same, nil)),
		"middleware 0 returned a nil":      second(consumer.Chain(consumer.Ignore, func(onefold.Handler) onefold.Handler { return nil }, same)),
		"timeout is 5ns; it must be at":    second(consumer.Timeout(5)),
		"timeout is -1s; it must be at":    second(consumer.Timeout(-time.Second)),
		"give up after 0 attempts; it mus": second(consumer.GiveUpAfter(0)),
	} {
		require.ErrorIs(t, err, onefold.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
	assert.Nil(t, timeout(t, time.Second)(nil))
	assert.Nil(t, giveUpAfter(t, 1)(nil))
}

func second[T any](_ T, err error) error { return err }

func TestATimeoutEndsTheContextAndIsAnOrdinaryFailure(t *testing.T) {
	tests := []struct {
		name    string
		handler func(context.Context) error
		timeout bool
		want    error
	}{
		{"in time", func(context.Context) error { return nil }, false, nil},
		{"its own failure in time", func(context.Context) error { return errors.ErrUnsupported }, false, errors.ErrUnsupported},
		{"too long", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, true, context.DeadlineExceeded},
		{"another error after it", func(ctx context.Context) error { <-ctx.Done(); return errors.ErrUnsupported }, true, errors.ErrUnsupported},
		{"done nevertheless", func(ctx context.Context) error { <-ctx.Done(); return nil }, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := chain(t, func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error { return tt.handler(ctx) }, timeout(t, time.Minute))
				err := handleWith(h, &onefold.Message{})
				require.ErrorIs(t, err, tt.want)
				assert.Equal(t, tt.timeout, errors.Is(err, consumer.ErrTimeout))
				assert.False(t, onefold.IsPermanent(err))
			})
		})
	}
}

func TestNestedTimeoutsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := chain(t, func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error {
			<-ctx.Done()
			return ctx.Err()
		}, timeout(t, time.Minute), timeout(t, time.Hour))
		require.EqualError(t, handleWith(h, &onefold.Message{}), "run took too long: 1m0s: context deadline exceeded")
	})
}

func TestGiveUpAfterJudgesFailuresOfTheMessageOnly(t *testing.T) {
	failed := errors.New("failed")
	tests := []struct {
		name      string
		attempt   int
		err       error
		cancelled bool
		permanent bool
	}{
		{"success", 3, nil, false, false},
		{"an early attempt", 2, failed, false, false},
		{"the last attempt", 3, failed, false, true},
		{"an attempt beyond it, after a deploy with less", 7, failed, false, true},
		{"an error that chooses its delay", 3, onefold.RetryAfter(time.Hour, failed), false, true},
		{"the consumer stops, or the claim is lost", 3, failed, true, false},
		{"a conflict", 3, onefold.ErrConflict, false, false},
		{"permanent anyway", 1, onefold.Permanent(failed), false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h := chain(t, func(context.Context, *onefold.Message, *onefold.Effects) error {
				if tt.cancelled {
					cancel()
				}
				return tt.err
			}, giveUpAfter(t, 3))
			err := h(ctx, &onefold.Message{}, onefold.NewEffects(onefold.RunInfo{Attempt: tt.attempt}, nil))
			require.ErrorIs(t, err, tt.err)
			assert.Equal(t, tt.permanent, onefold.IsPermanent(err))
		})
	}
}

func TestARouteWithItsOwnTimeoutAndAttemptsBecomesADeadLetterAfterThem(t *testing.T) {
	r := newRig(t)
	runs := 0
	h := chain(t, func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error {
		runs++
		<-ctx.Done()
		return ctx.Err()
	}, giveUpAfter(t, 2), timeout(t, time.Millisecond))
	work, relay := r.start(r.config(h)), r.relay()
	r.publish("m-1", "body")
	r.awaitCount("acked", 1)
	letter := r.read(consumer.DefaultDeadLetterStream, 1)[0]
	assert.Equal(t, "attempt 2 of 2: run took too long: 1ms: context deadline exceeded", letter.Headers().Get(consumer.HeaderDeadReason))
	work.end()
	relay.end()
	assert.Equal(t, 2, runs)
}
