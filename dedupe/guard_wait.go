package dedupe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
)

// NoLimit as GuardOptions.Wait waits as long as the context of Do lasts.
const NoLimit time.Duration = 1<<63 - 1

// begin claims the key. Where somebody runs it, begin waits as long as the options allow; what it returns then
// is what became of it: done, or free again and granted.
func (g *Guard) begin(ctx context.Context, r onefold.Request) (onefold.Grant, error) {
	grant, err := g.store.Begin(ctx, r)
	if err == nil && grant.Verdict == onefold.Busy && g.options.Wait > 0 {
		grant, err = g.await(ctx, r, grant)
	}
	if err != nil {
		return grant, fmt.Errorf("claim %v: %w", r.Key, err)
	}
	return grant, nil
}

// await asks for the key until it is not busy any more, or the time to wait is over.
func (g *Guard) await(ctx context.Context, r onefold.Request, grant onefold.Grant) (onefold.Grant, error) {
	start, pause := g.options.Clock.Mono(), pace.Store()
	for grant.Verdict == onefold.Busy {
		left := g.options.Wait - (g.options.Clock.Mono() - start)
		if left <= 0 {
			break
		}
		// Runs elsewhere say nothing when they end: they are asked for, and one whose process has died is over
		// when its lease is.
		next := min(left, pause.NextBackOff(), max(grant.RetryAfter, time.Millisecond))
		err := wait(ctx, g.running.ended(r.Key), next)
		if err != nil {
			return grant, fmt.Errorf("%w; waited for it: %w", &BusyError{Key: r.Key, RetryAfter: grant.RetryAfter}, err)
		}
		if grant, err = g.store.Begin(ctx, r); err != nil {
			return grant, err
		}
	}
	return grant, nil
}

// wait returns when ended is closed or d has passed, or with the error of ctx.
func wait(ctx context.Context, ended <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-ended:
	case <-timer.C:
	}
	return nil
}

// runs are the keys that one Guard runs now, so that who waits for one hears of its end at once.
type runs struct {
	mu   sync.Mutex
	ends map[onefold.Key]chan struct{}
}

// begin notes that key runs. The returned function notes its end; it must be called once.
func (r *runs) begin(key onefold.Key) (end func()) {
	ended := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends == nil {
		r.ends = make(map[onefold.Key]chan struct{})
	}
	r.ends[key] = ended
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		// A run that has lost its claim may end after its successor has begun.
		if r.ends[key] == ended {
			delete(r.ends, key)
		}
		close(ended)
	}
}

// ended returns a channel that is closed when the run of key ends, or nil if this Guard does not run it.
func (r *runs) ended(key onefold.Key) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ends[key]
}
