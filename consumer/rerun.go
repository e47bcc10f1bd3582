package consumer

import "github.com/onefold-go/onefold"

// maxConflicts is how often a handler is run again at once when the state it read has moved; after that
// the message waits its turn, so that a hot key does not keep a worker busy in vain.
const maxConflicts = 16

// rerun runs the handler again on the same claim: the state it read has moved. It uses up no attempt. A run that
// must be alone gives its claim and its counted start back first, because others run before its turn comes.
func (s *session) rerun(d *delivery) {
	d.conflicts++
	if d.conflicts > maxConflicts || d.timedOut || s.draining.Load() || d.weight == room {
		d.conflicts = 0
		s.retryLater(d, verdict{class: onefold.ClassConflict, delay: s.rule.min, reason: onefold.ErrConflict.Error()})
		return
	}
	s.yield(d) // all workers may be waiting for room
	if !s.work.push(d) {
		s.retryLater(d, verdict{class: onefold.ClassConflict, reason: onefold.ErrConflict.Error()})
	}
}
