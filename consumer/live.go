package consumer

import "sync"

// live is what a Consumer knows of its calls of Run, for those who ask from outside.
type live struct {
	mu      sync.Mutex
	paused  bool
	session *session // under way; nil: none
	status  *status  // of the last call of Run; nil: there was none
}

// opens notes that a call of Run has begun.
func (l *live) opens(s *status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status = s
}

// runs notes a session that is about to run, with the pause that is in force.
func (l *live) runs(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = s
	if l.paused {
		s.stopFor(whyPause, true, nil)
	}
}

// ends notes that the session has ended.
func (l *live) ends() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = nil
}

// Pause stops the asking for messages until Resume is called: what has not started is given back to the server,
// handlers that run come to their ends. It does not wait for them; Health tells how many run. The state is
// [StatePaused]. A consumer that is not running is paused when Run is called. Pausing twice is pausing once.
//
// A pause is this Consumer's own: it is not kept anywhere, and other processes on the same durable go on.
func (c *Consumer) Pause() { c.pause(true) }

// Resume ends a pause.
func (c *Consumer) Resume() { c.pause(false) }

func (c *Consumer) pause(on bool) {
	c.live.mu.Lock()
	defer c.live.mu.Unlock()
	c.live.paused = on
	if s := c.live.session; s != nil {
		s.stopFor(whyPause, on, nil)
	}
}
