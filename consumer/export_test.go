package consumer

import "context"

// Open and Start let tests look into one session; together they are Run.
func (c *Consumer) Open(ctx context.Context) (*session, error) { return c.open(ctx, newStatus(c.cfg)) }
func (s *session) Start(ctx context.Context) error             { return s.run(ctx) }

// Counts are what the puller and the registry hold: all 0 once a session has ended.
func (s *session) Counts() (asked, held, keys int) {
	s.pull.mu.Lock()
	defer s.pull.mu.Unlock()
	return s.pull.asked, s.pull.held, s.reg.size()
}

// Floor is the stream position below which everything is settled.
func (s *session) Floor() uint64 { return s.floor.Load().At.Sequence }

// FloorIn is the position of a stored floor, 0 if there is none.
func FloorIn(stored []byte) uint64 {
	f, _ := decodeFloor(stored)
	return f.At.Sequence
}

// FloorAt is a stored floor set back to a position.
func FloorAt(stored []byte, position uint64) []byte {
	f, _ := decodeFloor(stored)
	f.At.Sequence = position
	return f.encode()
}

// Deafen has a session answer nobody, and Announce has it tell that it is there.
func (s *session) Deafen()   { _ = s.listening[0].Unsubscribe() }
func (s *session) Announce() { s.announce() }

// size is how many keys are held.
func (r *registry) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byKey)
}

// Kept is how many lanes there are, and how many messages are known to stay away: 0 when nothing is under way.
func (s *session) Kept() (lanes, away int) {
	s.pull.sweep()
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	return len(s.reg.lanes.byKey), int(s.pull.away.count.Load())
}
