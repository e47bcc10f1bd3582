package consumer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onefold-go/onefold"
)

// This file is what happens to runs that do not end in time. At Config.HandlerTimeout the handler's context
// is cancelled. If it has not returned when the grace is over, its run becomes a zombie: the claim is given
// back, so that the message may run again, the goroutine is written off and another takes its place, and
// whatever the handler still returns is refused. A run that loses its claim and does not return goes the
// same way.

var (
	// ErrHandlerTimeout is the cause (context.Cause) of a handler's context that was cancelled because its
	// run took longer than Config.HandlerTimeout.
	ErrHandlerTimeout = errors.New("handler took longer than Config.HandlerTimeout")
	// ErrZombies says why Run has given up: only a new process is free of so many zombies.
	ErrZombies = errors.New("too many handlers ignore the end of their context")
)

// zombies are the runs whose goroutines have been written off and have not returned.
type zombies struct {
	mu  sync.Mutex
	all map[*delivery]struct{}
}

// add enters a run and returns how many there are now.
func (z *zombies) add(d *delivery) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.all == nil {
		z.all = make(map[*delivery]struct{})
	}
	z.all[d] = struct{}{}
	return len(z.all)
}

// remove takes out a run that has returned and returns how many are left.
func (z *zombies) remove(d *delivery) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.all, d)
	return len(z.all)
}

// list returns the runs in the order of their positions.
func (z *zombies) list() []*delivery {
	z.mu.Lock()
	defer z.mu.Unlock()
	list := make([]*delivery, 0, len(z.all))
	for d := range z.all {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b *delivery) int { return cmp.Compare(a.msg.Sequence, b.msg.Sequence) })
	return list
}

// deposed is a run that has lost its claim and was told to stop. The heartbeat keeps them.
type deposed struct {
	*delivery
	since time.Duration
}

// begins makes d the delivery whose handler is about to run.
func (s *session) begins(w *worker, d *delivery) {
	d.class, d.cause = onefold.ClassNone, nil // of a run before that was overtaken
	d.cancel = w.context(s.handlers)
	d.ran.Store(int64(s.clock.Mono()))
	d.set(stageRunning)
}

// returned notes that the handler has returned, and reports false if the claim was taken away meanwhile. A context
// that was cancelled, or may be any moment, serves no further message.
func (s *session) returned(w *worker, d *delivery) bool {
	if d.move(stageRunning, stageHandled) {
		return true
	}
	w.discardContext()
	if d.move(stageStopping, stageHandled) {
		d.timedOut = true
		return true
	}
	w.replaced = !d.move(stageDeposed, stageEnded)
	return false
}

// endOverruns does what is due to the runs that take too long.
func (s *session) endOverruns(all []held) {
	for _, h := range all {
		now, d := s.clock.Mono(), h.delivery
		switch overrunOf(d.at(), now, time.Duration(d.ran.Load()), d.stopped, s.overrun) {
		case overrunStop:
			if d.move(stageRunning, stageStopping) {
				d.stopped = now
				d.cancel(ErrHandlerTimeout)
			}
		case overrunRevoke:
			s.revoke(d, now)
		}
	}
	s.deposed = slices.DeleteFunc(s.deposed, func(x deposed) bool {
		if s.clock.Mono()-x.since < s.overrun.grace() {
			return x.at() != stageDeposed
		}
		if x.move(stageDeposed, stageZombie) {
			s.writeOff(x.delivery)
			go s.worker(nil)
		}
		return true
	})
}

// revoke gives up the run of d. The message goes on as another delivery, because the handler still has this
// one; the worker that takes the place of the lost one answers it first.
func (s *session) revoke(d *delivery, now time.Duration) {
	if !d.move(stageStopping, stageZombie) {
		return // it has returned after all
	}
	heir := d.successor()
	heir.claim, heir.history, heir.attempt = d.claim, d.history, d.attempt
	heir.set(stageHandled)
	s.reg.inherit(d, heir)
	s.writeOff(d)
	v, err := afterOverrun(now-time.Duration(d.ran.Load()), s.cfg.ParkUnknown, runState{attempt: d.attempt, seed: d.seed()}, s.rule)
	go s.worker(func() { s.act(heir, v, err) })
}

// writeOff makes a zombie of the run of d, whose stage says so already. The caller starts a worker in place of
// the one that is lost; it takes over the place in the wait group.
func (s *session) writeOff(d *delivery) {
	s.yield(d)
	s.passTurn(d)
	n := s.zombies.add(d)
	if s.obs.Zombie != nil {
		e := s.zombieEvent(d, n)
		s.obs.Zombie(e)
	}
	if limit := zombieLimit(s.cfg.Concurrency); n > limit {
		s.fail(fmt.Errorf("%w: %d, and %d are borne", ErrZombies, n, limit))
	}
}

// buried notes that a zombie has returned.
func (s *session) buried(d *delivery) {
	n := s.zombies.remove(d)
	if s.obs.ZombieEnded != nil {
		s.obs.ZombieEnded(s.zombieEvent(d, n))
	}
}

func (s *session) zombieEvent(d *delivery, n int) onefold.DeliveryEvent {
	e := s.event(d)
	e.Took, e.Zombies, e.Class = s.clock.Mono()-time.Duration(d.ran.Load()), n, onefold.ClassLost
	return e
}
