package consumer

// gather is what happens first after a crash. The server hands out what is due before what is new, but in the order in
// which it became due, and that is another one where the former process had said of some that it still worked on them.
// So nothing of an ordering key starts until all that was handed out before has arrived, or something new has, which
// the server sends after them.
type gather struct {
	upTo uint64 // highest position that was handed out before
	left int    // how many of those are still to arrive
}

// arrived notes a message. Whoever waits gets its turn when it was the last.
func (r *registry) arrived(sequence uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.lanes.gather
	if g == nil {
		return
	}
	if g.left--; g.left <= 0 || sequence > g.upTo {
		r.lanes.endGathering()
	}
}

// endGathering lets messages start, whether all have arrived or not.
func (r *registry) endGathering() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lanes.endGathering()
}

func (s *lanes) endGathering() {
	if s.gather == nil {
		return
	}
	s.gather = nil
	for order := range s.byKey {
		s.advance(order)
	}
}
