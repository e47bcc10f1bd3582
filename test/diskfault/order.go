package diskfault

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// span is a sync that succeeded: the steps at which it began and came back.
type span struct{ begin, end int }

// order follows a trace and looks at the order of what the worker said and what was synced.
type order struct {
	mainFile string
	alone    bool // nobody but the worker's one lane makes the store write: what it says belongs to the last group

	began    map[*call]int
	syncs    []span
	tried    map[string]int // number of an entry -> step of its first try
	metaLast bool           // the last write to the main file was to one of its first two pages
	failStop int            // the step at which a sync of such a page has failed; 0: none has
	closing  bool           // the worker is about to close the store
	atClose  bool           // the fail stop came after that
	breaches []string
	first    int // the step of the first breach
}

// needed is how many syncs a commit takes: of its pages, and of the page that makes them count.
const needed = 2

// checkOrder reports what was acked or published before it was synced, or although a sync had failed.
func checkOrder(t *trace, p plan) (o *order) {
	o = &order{
		mainFile: filepath.Join(p.Dir, "main.db"), alone: p.Lanes == 1 && p.Segment == 0, // sealing writes on its own
		began: map[*call]int{}, tried: map[string]int{},
	}
	for at, s := range t.steps {
		if len(s.call.args) == 0 {
			continue
		}
		if line, ok := s.call.said(); ok {
			if !s.end {
				o.hear(line, at)
			}
			continue
		}
		if s.call.file(0) == o.mainFile {
			o.follow(s, at)
		}
	}
	return o
}

func (o *order) follow(s step, at int) {
	c := s.call
	switch {
	case c.name == "pwrite64":
		o.metaLast = c.number(3) < 2*int64(os.Getpagesize()) && c.number(2) == int64(os.Getpagesize())
	case c.name != "fdatasync" && c.name != "fsync":
	case !s.end:
		o.began[c] = at
	case c.did() && c.ended:
		o.syncs = append(o.syncs, span{o.began[c], at})
	case c.failed && o.metaLast && o.failStop == 0:
		o.failStop, o.atClose = at, o.closing
	}
}

func (o *order) hear(line string, at int) {
	words := append(strings.Fields(line), "", "")
	switch words[0] {
	case sayTry:
		if _, ok := o.tried[words[1]]; !ok {
			o.tried[words[1]] = at
		}
	case sayClosing:
		o.closing = true
	case sayAcked, sayPublished:
		n := 0
		for _, s := range o.syncs {
			if s.begin > o.tried[words[1]] && (o.failStop == 0 || s.end < o.failStop) {
				n++
			}
		}
		if n < needed {
			o.breach(at, "%q was said after %d syncs", line, n)
		}
		if o.failStop > 0 && o.alone {
			o.breach(at, "%q was said after a fail stop", line)
		}
	}
}

func (o *order) breach(at int, format string, args ...any) {
	if len(o.breaches) == 0 {
		o.first = at
	}
	o.breaches = append(o.breaches, fmt.Sprintf(format, args...))
}

// count is how often each call was made at most by one thread: faults are counted by thread.
func (t *trace) count(name string) (n int) {
	per := map[string]int{}
	for _, s := range t.steps {
		if s.call.name == name && !s.end {
			per[s.call.thread]++
			n = max(n, per[s.call.thread])
		}
	}
	return n
}

// injected reports whether a fault was put in anywhere.
func (t *trace) injected() bool {
	for _, s := range t.steps {
		if s.call.injected || s.call.delayed {
			return true
		}
	}
	return t.killed
}
