package consumer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// This file is how a session ends. Each step has a bound, so that Run returns within about ten seconds of
// Config.ShutdownTimeout even if server, store and handlers all hang.

const (
	cancelGrace = 2 * time.Second // for cancelled handlers to return, and for store calls to give up
	lastTimeout = 2 * time.Second // for each of the last words to server and store
)

// endWork gives back what has not started and waits for what runs, in the order of a message's life. It
// returns ErrHandlersRunning if some handlers do not end; their results are refused.
func (s *session) endWork(forGood bool, endHandlers, endOps context.CancelFunc) error {
	start := time.Now()
	s.reg.endLanes()
	s.giveBackUnstarted(0)
	s.work.close()
	workers := ended(&s.workers)
	if !waitFor(workers, s.cfg.ShutdownTimeout) {
		endHandlers()
	}
	idle := waitFor(workers, cancelGrace)
	late := s.running()
	s.commits.close()
	committers := ended(&s.committers)
	if !idle || !waitFor(committers, s.cfg.ShutdownTimeout-time.Since(start)) {
		// Outcomes that the store does not tell by now stay unanswered: the messages come again.
		endOps()
	}
	<-committers
	left := s.zombies.list()
	if !forGood {
		left = nil // they were written off, and another session follows
	}
	if idle = idle || (len(late) == 0 && waitFor(workers, cancelGrace)); idle && len(left) == 0 {
		return nil
	}
	for _, z := range left {
		late = append(late, named(z))
	}
	late = late[:min(len(late), maxNamed)]
	return fmt.Errorf("%w (%v): %s", ErrHandlersRunning, s.cfg.ShutdownTimeout, strings.Join(late, ", "))
}

// maxNamed is how many messages an error names.
const maxNamed = 5

// running names messages whose handlers have not returned.
func (s *session) running() (names []string) {
	for _, h := range s.reg.snapshot(nil) {
		if at := h.at(); (at == stageRunning || at == stageStopping) && len(names) < maxNamed {
			names = append(names, named(h.delivery))
		}
	}
	return names
}

func named(d *delivery) string { return fmt.Sprintf("%v (stream sequence %d)", d.key, d.msg.Sequence) }

// giveBackUnstarted hands everything that has not started to other processes, after delay.
func (s *session) giveBackUnstarted(delay time.Duration) {
	all := s.reg.snapshot(nil)
	// The server hands them out again in the order in which they are given back.
	slices.SortFunc(all, func(a, b held) int { return cmp.Compare(a.msg.Sequence, b.msg.Sequence) })
	for _, h := range all {
		if h.move(stageWaiting, stageEnded) || h.move(stageQueued, stageEnded) || h.move(stageClaiming, stageEnded) {
			s.giveBackAll(append(s.reg.remove(h.delivery), h.delivery), delay)
		}
	}
}

// ended returns a channel that is closed when wg is done. Its goroutine ends with the last one of wg.
func ended(wg *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	return done
}

func waitFor(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// flush sends the last acks and reports whether it could. If not, the messages come again and the store answers
// them.
func (s *session) flush(ctx context.Context) bool {
	if !s.js.Conn().IsConnected() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lastTimeout)
	defer cancel()
	return s.js.Conn().FlushWithContext(ctx) == nil
}
