package boltstore

import (
	"sync"
	"time"
)

// What the upkeep could not do is tried again after firstWait, and each time it fails after twice as long, up to
// longestWait: what fails on a full disk fills it each time.
const (
	firstWait   = 5 * time.Second
	longestWait = 5 * time.Minute
)

// patience remembers which kinds of work have failed.
type patience struct {
	mu   sync.Mutex
	last map[string]failure // by kind of work
}

type failure struct {
	err   error
	wait  time.Duration
	until time.Duration // monotonic
}

// due reports whether a kind of work may be tried.
func (p *patience) due(what string, now time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, failed := p.last[what]
	return !failed || now >= f.until
}

// note takes note of a piece of work.
func (p *patience) note(what string, err error, now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.last, what)
		return
	}
	if p.last == nil {
		p.last = map[string]failure{}
	}
	wait := min(max(2*p.last[what].wait, firstWait), longestWait)
	p.last[what] = failure{err, wait, now + wait}
}

// hurry lets everything be tried at once: what stood in the way may be gone.
func (p *patience) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for what, f := range p.last {
		f.wait, f.until = 0, 0
		p.last[what] = f
	}
}

// problem is one of the errors that keep work from being done, or nil.
func (p *patience) problem() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.last {
		return f.err
	}
	return nil
}
