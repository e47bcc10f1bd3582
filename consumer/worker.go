package consumer

import (
	"context"
	"time"

	"github.com/onefold-go/onefold/internal/safecall"
)

// worker is what one worker goroutine keeps between messages.
type worker struct {
	ctx     context.Context
	stop    context.CancelFunc
	call    safecall.Call
	began   time.Duration
	running *delivery // while its handler runs
}

// context returns the cancel function of the context that the next handler gets. One context serves many
// messages, because making one for each costs more than handling a small message; it is replaced once it
// has been cancelled.
func (w *worker) context(parent context.Context) context.CancelFunc {
	if w.ctx == nil || w.ctx.Err() != nil {
		w.ctx, w.stop = context.WithCancel(parent)
	}
	return w.stop
}

// discardContext gives up a context whose cancel function may still be called by the heartbeat.
func (w *worker) discardContext() {
	if w.stop != nil {
		w.stop()
	}
	w.ctx, w.stop = nil, nil
}

// worker carries messages through claim and handle until there are none left.
func (s *session) worker() {
	var w worker
	defer func() {
		if w.stop != nil {
			w.stop()
		}
		if d := w.running; d != nil {
			// The handler has called runtime.Goexit, which is about to end this goroutine: its message has
			// failed, and another worker takes its place.
			s.handled(&w, d, w.call.Err())
			s.workers.Go(s.worker)
		}
	}()
	for {
		d, ok := s.work.pop()
		if !ok {
			return
		}
		if d.conflicts > 0 {
			s.resume(&w, d)
			s.handle(&w, d)
		} else if s.mayStart(d) && s.claim(&w, d) {
			s.handle(&w, d)
		}
	}
}

// committer carries messages through commit and finish until there are none left.
func (s *session) committer() {
	var batch []*delivery
	for {
		batch = s.commits.popAll(batch[:0])
		if len(batch) == 0 {
			return
		}
		s.commit(batch)
		clear(batch)
	}
}
