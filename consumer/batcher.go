package consumer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/safecall"
)

// This file gathers messages whose handlers have been called into batches. The handler of each message waits in
// here for the batch that it is in, so that everything that is known of a handler holds for it. The handler
// of the first message of a batch leads: it waits for others, and makes the call.

// errBatchOutlived is why the run of a message ended before the call that it was in.
var errBatchOutlived = errors.New("the call of its batch goes on after the end of its context")

// batcher is where the messages of one consumer meet.
type batcher struct {
	rule    Batch
	overrun overrunRule

	mu   sync.Mutex
	open *batch // takes messages; nil: the next one leads
}

// batch is one call and what it is about.
type batch struct {
	items    []*BatchItem
	contexts []context.Context // of their runs
	full     chan struct{}     // closed when it takes no more
	done     chan struct{}     // closed when the call has ended and every item has its Err
}

func newBatcher(rule Batch, timeout time.Duration) *batcher {
	return &batcher{rule: rule, overrun: overrunRule{timeout: timeout}}
}

// handle is the handler of every message.
func (b *batcher) handle(ctx context.Context, m *onefold.Message, fx *onefold.Effects) error {
	item := &BatchItem{Message: m, Effects: fx}
	mine, leads := b.enter(ctx, item)
	if leads {
		b.gather(ctx, mine)
		b.call(ctx, mine)
	} else if !b.await(ctx, mine) {
		return errors.Join(errBatchOutlived, context.Cause(ctx))
	}
	return item.Err
}

// enter puts an item into a batch, and reports whether its handler leads. One that has failed before gets a
// batch of its own.
func (b *batcher) enter(ctx context.Context, item *BatchItem) (mine *batch, leads bool) {
	alone := item.Effects.Attempt() > 1
	b.mu.Lock()
	defer b.mu.Unlock()
	if mine = b.open; mine == nil || alone {
		mine, leads = &batch{full: make(chan struct{}), done: make(chan struct{})}, true
	}
	mine.items, mine.contexts = append(mine.items, item), append(mine.contexts, ctx)
	switch {
	case alone:
		close(mine.full)
	case len(mine.items) == b.rule.Size:
		b.open = nil
		close(mine.full)
	default:
		b.open = mine
	}
	return mine, leads
}

// gather waits until a batch takes no more.
func (b *batcher) gather(ctx context.Context, mine *batch) {
	timer := time.NewTimer(b.rule.Wait)
	defer timer.Stop()
	select {
	case <-mine.full:
		return
	case <-timer.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == mine {
		b.open = nil
	}
}

// call makes the call, and gives every item its outcome whichever way the call ends.
func (b *batcher) call(lead context.Context, mine *batch) {
	ctx, end := mine.context(lead)
	defer end()
	var call safecall.Call
	defer func() { mine.finish(call.Err()) }()
	// The slice belongs to the handler from now on; ours says whom to answer.
	_ = call.Do(func() error { return b.rule.Handler(ctx, slices.Clone(mine.items)) })
}

// finish gives err to every item without an error of its own.
func (x *batch) finish(err error) {
	for _, item := range x.items {
		if item.Err == nil {
			item.Err = err
		}
	}
	close(x.done)
}

// context is that of the call: it carries the leader's values and ends when the contexts of all items have ended. One
// that loses its claim does not end the others.
func (x *batch) context(lead context.Context) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(lead))
	var left atomic.Int64
	left.Store(int64(len(x.contexts)))
	stops := make([]func() bool, 0, len(x.contexts))
	for _, own := range x.contexts {
		stops = append(stops, context.AfterFunc(own, func() {
			if left.Add(-1) == 0 {
				cancel(context.Cause(own))
			}
		}))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// await waits for the end of a call that another handler makes. When the context of this run has ended and the
// call has not, half of the grace later, it reports false: the leader alone becomes a zombie then.
func (b *batcher) await(ctx context.Context, mine *batch) bool {
	select {
	case <-mine.done:
		return true
	case <-ctx.Done():
	}
	timer := time.NewTimer(b.overrun.grace() / 2)
	defer timer.Stop()
	select {
	case <-mine.done:
		return true
	case <-timer.C:
		return false
	}
}
