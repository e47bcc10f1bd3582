package consumer

import (
	"slices"
	"time"
)

// This file is what others ask of the lanes. Without Config.OrderBy there are none.

// settle says that d, which stays held, does not hold up its ordering key any more.
func (r *registry) settle(d *delivery) {
	if r.lanes == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lanes.leave(d, nil)
}

// pass notes a message that has arrived and is given back at once.
func (r *registry) pass(d *delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.order != "" && !r.heldAlready(d) {
		r.lanes.miss(d)
	}
}

// endLanes lets nobody begin to wait any more.
func (r *registry) endLanes() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lanes != nil {
		r.lanes.ending = true
	}
}

// miss notes a message of a lane that an earlier session has seen.
func (r *registry) miss(lane string, m missed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lanes.missAt(lane, m)
}

// overdueMessage is a missed message that should have come again.
type overdueMessage struct {
	missed
	lane string
}

// overdue returns up to limit missed messages that should have come again an AckWait ago, the first of their
// lanes before others of them.
func (r *registry) overdue(now time.Duration, limit int) (all []overdueMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, l := range r.lanes.byKey {
		for _, m := range l.missed {
			if len(all) == limit {
				return all
			}
			if now-m.due >= r.lanes.rule.ackWait {
				all = append(all, overdueMessage{m, name})
			}
		}
	}
	return all
}

// looked says what has become of a missed message: it is gone, or it is looked for again after an AckWait. If it
// has come again meanwhile nothing follows.
func (r *registry) looked(o overdueMessage, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lanes.byKey[o.lane]
	if l == nil {
		return
	}
	at, ok := l.where(o.sequence)
	if !ok {
		return
	}
	if !gone {
		l.missed[at].due = r.lanes.mono()
		return
	}
	if l.found(o.sequence) {
		r.lanes.over = append(r.lanes.over, o.sequence)
	}
	r.lanes.advance(o.lane)
}

// overRows returns the sequences of rows that are of no use any more, once.
func (r *registry) overRows() []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	over := r.lanes.over
	r.lanes.over = nil
	return over
}

// missing returns what is missed and not saved, by lane.
func (r *registry) missing() map[string][]missed {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string][]missed)
	for name, l := range r.lanes.byKey {
		unsaved := slices.DeleteFunc(slices.Clone(l.missed), func(m missed) bool { return m.saved })
		if len(unsaved) > 0 {
			all[name] = unsaved
		}
	}
	return all
}
