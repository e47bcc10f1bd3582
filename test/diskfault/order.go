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
	alone    bool // the worker has one lane: nothing that it says belongs to an earlier group

	began    map[*call]int
	syncs    []span
	tried    map[string]int // number of an entry -> step of its first try
	metaLast bool           // the last write to the main file was to one of its first two pages
	failStop bool           // a sync of such a page has failed
	breaches []string
}

// needed is how many syncs a commit takes: of its pages, and of the page that makes them count.
const needed = 2

// checkOrder reports what was acked or published before it was synced, or after a fail stop.
func checkOrder(t *trace, dir string, alone bool) (o *order) {
	o = &order{mainFile: filepath.Join(dir, "main.db"), alone: alone, began: map[*call]int{}, tried: map[string]int{}}
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
	case c.failed && o.metaLast:
		o.failStop = true
	}
}

func (o *order) hear(line string, at int) {
	words := append(strings.Fields(line), "", "")
	switch words[0] {
	case sayTry:
		if _, ok := o.tried[words[1]]; !ok {
			o.tried[words[1]] = at
		}
	case sayAcked, sayPublished:
		n := 0
		for _, s := range o.syncs {
			if s.begin > o.tried[words[1]] {
				n++
			}
		}
		if n < needed {
			o.breaches = append(o.breaches, fmt.Sprintf("%q was said after %d syncs", line, n))
		}
		if o.failStop && o.alone {
			o.breaches = append(o.breaches, fmt.Sprintf("%q was said after a fail stop", line))
		}
	}
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
