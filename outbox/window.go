package outbox

import (
	"context"
	"sync"
)

// window counts the rows that are out. One goroutine takes, another gives back.
type window struct {
	size, least int

	mu    sync.Mutex
	used  int
	freed chan struct{} // holds one token if something was given back since the last look
}

func newWindow(size int) *window {
	// A quarter is waited for, so that rows are fetched in batches and not one for each that is settled.
	return &window{size: size, least: max(size/4, 1), freed: make(chan struct{}, 1)}
}

// take waits until a fair part is free and takes all that is free.
func (w *window) take(ctx context.Context) (int, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if n := w.tryTake(); n > 0 {
			return n, nil
		}
		select {
		case <-w.freed:
		case <-ctx.Done():
		}
	}
}

func (w *window) tryTake() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.size - w.used
	if n < w.least {
		return 0
	}
	w.used = w.size
	return n
}

// give returns n places.
func (w *window) give(n int) {
	w.mu.Lock()
	w.used -= n
	w.mu.Unlock()
	select {
	case w.freed <- struct{}{}:
	default:
	}
}

// out is how many places are taken.
func (w *window) out() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}
