package consumer

import (
	"context"

	"github.com/onefold-go/onefold/internal/safecall"
)

// worker is what one worker goroutine keeps between messages.
type worker struct {
	ctx      context.Context
	stop     context.CancelCauseFunc
	call     safecall.Call
	running  *delivery // while its handler runs
	replaced bool      // another worker has its place: it takes no further message
}

// context returns the cancel function of the context that the next handler gets. One context serves many
// messages, because making one for each costs more than handling a small message; it is replaced once it
// has been cancelled.
func (w *worker) context(parent context.Context) context.CancelCauseFunc {
	if w.ctx == nil || w.ctx.Err() != nil {
		w.ctx, w.stop = context.WithCancelCause(parent)
	}
	return w.stop
}

// discardContext gives up a context whose cancel function may still be called by the heartbeat.
func (w *worker) discardContext() {
	if w.stop != nil {
		w.stop(nil)
	}
	w.ctx, w.stop = nil, nil
}

// worker does first, if it is not nil, and carries messages through claim and handle until there are none left,
// or until it was replaced while its handler ran.
func (s *session) worker(first func()) {
	var w worker
	defer func() {
		d := w.running
		if d != nil {
			// The handler has called runtime.Goexit, which is about to end this goroutine: its message has failed.
			s.handled(&w, d, w.call.Err())
		}
		if w.stop != nil {
			w.stop(nil)
		}
		switch {
		case w.replaced: // its place in the wait group belongs to the other one
		case d != nil:
			go s.worker(nil)
		default:
			s.workers.Done()
		}
	}()
	if first != nil {
		first()
	}
	for !w.replaced {
		d, ok := s.work.pop()
		if !ok {
			return
		}
		s.carry(&w, d)
	}
}

// carry brings one message to the committers, or to its end.
func (s *session) carry(w *worker, d *delivery) {
	if d.conflicts > 0 {
		if !s.awaitTurn(d) {
			return
		}
		if s.wary.Load() && !s.enter(d, cautionNone) {
			return
		}
		s.begins(w, d) // on the claim that it has
		s.handle(w, d)
	} else if s.mayStart(d) && s.claim(w, d) {
		s.handle(w, d)
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
