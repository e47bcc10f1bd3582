package pace

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Store paces what is repeated until a store answers: soon at first, then about once a second, without end.
func Store() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(10*time.Millisecond),
		backoff.WithMaxInterval(time.Second), backoff.WithMaxElapsedTime(0))
}

// Conflict paces runs that are repeated because state moved under them. The competitor is usually done by
// then, so it starts sooner than Store. It has no end of its own: callers count runs.
func Conflict() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(2*time.Millisecond), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(500*time.Millisecond), backoff.WithMaxElapsedTime(0))
}

// Sleep waits for d and reports false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Outlive returns a context with the values of ctx that ends grace after ctx has ended, or when the
// returned function is called.
func Outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(own, func() { timer.Stop() }) // nothing is left behind when own ends earlier
	})
	return own, func() {
		stop()
		cancel()
	}
}
