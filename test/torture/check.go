package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onefold-go/onefold"
)

// facts is what is known when all is over.
type facts struct {
	orders  map[string]*entry
	epoch   int          // how often the server has lost its data
	effects []sentEffect // in the order of their streams
	letters []letter
	workers []stored
	sink    stored
	left    []string // who still had something to do when the time to settle was over

	deliveries int
	heap       int64 // bytes, the most that any worker needed
	goroutines int64
}

// The bounds of what a worker may need, however long it runs.
const (
	maxHeap       = 512 << 20
	maxGoroutines = 1000
)

// sentEffect is a message of the stream of effects.
type sentEffect struct {
	effect
	id    string // under which it was sent
	epoch int
}

// letter is a dead letter.
type letter struct {
	order, reason string
	epoch         int
}

// reasonReused is the reason of dead letters of reused IDs.
const reasonReused = "id reused with different payload"

// violation is a broken promise.
type violation struct {
	Kind string // lost, double, disorder or stuck
	ID   string // of an order; "": of none in particular
	Text string
}

// checker collects what is wrong.
type checker struct {
	facts
	found []violation

	sent     map[string][]sentEffect // by order
	given    map[string][]letter     // by order, without those of reused IDs
	refused  map[string][]letter     // by order, of reused IDs
	outcomes map[string]onefold.Outcome
}

// check compares what the stores and the streams hold with what was published. It is a pure function.
func check(f facts) []violation {
	c := &checker{facts: f, sent: map[string][]sentEffect{}, given: map[string][]letter{}, refused: map[string][]letter{}, outcomes: map[string]onefold.Outcome{}}
	for _, e := range f.effects {
		c.sent[e.Order] = append(c.sent[e.Order], e)
	}
	for _, l := range f.letters {
		if strings.HasPrefix(l.reason, reasonReused) {
			c.refused[l.order] = append(c.refused[l.order], l)
		} else {
			c.given[l.order] = append(c.given[l.order], l)
		}
	}
	for _, w := range f.workers {
		maps.Copy(c.outcomes, w.Records)
	}
	for _, id := range slices.Sorted(maps.Keys(f.orders)) {
		c.checkOrder(id, f.orders[id])
	}
	for _, id := range slices.Sorted(maps.Keys(c.sent)) {
		c.checkSent(id, c.sent[id])
	}
	c.checkAccounts()
	c.checkOrderOfEffects()
	c.checkStuck()
	return c.found
}

func (c *checker) add(kind, id, format string, args ...any) {
	c.found = append(c.found, violation{kind, id, fmt.Sprintf(format, args...)})
}

// checkOrder wants one outcome for each order that was confirmed. What the server has lost together with its data, and
// no worker had finished, nobody can handle.
func (c *checker) checkOrder(id string, e *entry) {
	effects, letters := len(c.sent[id]), len(c.given[id])
	switch outcome := c.outcomes[id]; {
	case effects > 0 && letters > 0:
		c.add("double", id, "it has an effect and a dead letter (%s)", c.given[id][0].reason)
	case effects+letters > 0:
	case outcome != 0:
		c.add("lost", id, "its worker has it as %v, and what should have been sent is nowhere", outcome)
	case e.accepted && e.epoch == c.epoch:
		c.add("lost", id, "it was confirmed, and has neither an effect nor a dead letter")
	}
	if e.reused && e.reusedIn == c.epoch && e.epoch == c.epoch && len(c.refused[id]) == 0 {
		c.add("lost", id, "its other payload was confirmed and has no dead letter")
	}
}

// checkSent looks at an order that has sent something.
func (c *checker) checkSent(id string, all []sentEffect) {
	for _, e := range all[1:] {
		if e.id != all[0].id {
			c.add("double", id, "its effect was sent under two IDs, %s and %s", all[0].id, e.id)
		}
	}
	if c.outcomes[id] != onefold.Succeeded {
		c.add("double", id, "it has an effect and no mark (%v)", c.outcomes[id])
	}
	switch n := c.sink.Applied[id]; {
	case n > 1:
		c.add("double", id, "its effect was applied %d times", n)
	case n == 0 && all[len(all)-1].epoch == c.epoch:
		c.add("lost", id, "its effect was sent and never applied")
	}
}

// checkAccounts compares the state of workers with what they have sent.
func (c *checker) checkAccounts() {
	orders := map[string]int{}
	for _, all := range c.sent {
		orders[all[0].Account]++
	}
	for _, w := range c.workers {
		for _, name := range slices.Sorted(maps.Keys(w.Accounts)) {
			a := w.Accounts[name]
			if a.N != orders[name] {
				c.add("double", "", "account %s counts %d orders, and effects of %d were sent", name, a.N, orders[name])
			}
			if !w.Ordered {
				continue
			}
			for _, id := range a.Disorder {
				c.add("disorder", id, "it took effect behind a later order of its account %s", name)
			}
		}
	}
}

// checkOrderOfEffects wants the effects of an account in the order of their commits, where each arrived first.
func (c *checker) checkOrderOfEffects() {
	last, seen := map[string]int{}, map[string]bool{}
	for _, e := range c.effects {
		if seen[e.id] {
			continue
		}
		seen[e.id] = true
		if e.N < last[e.Account] {
			c.add("disorder", e.Order, "effect %d of account %s was stored behind effect %d", e.N, e.Account, last[e.Account])
		}
		last[e.Account] = e.N
	}
}

func (c *checker) checkStuck() {
	if c.heap > maxHeap || c.goroutines > maxGoroutines {
		c.add("stuck", "", "a worker needed %d bytes of heap and %d goroutines", c.heap, c.goroutines)
	}
	for _, name := range c.left {
		c.add("stuck", "", "%s", name)
	}
	for i, s := range append(slices.Clone(c.workers), c.sink) {
		for _, rows := range [][]string{s.Waiting, s.Parked} {
			if len(rows) > 0 {
				c.add("stuck", strings.SplitN(rows[0], ":", 2)[0], "store %d has %d effects that have not left, such as %s", i, len(rows), rows[0])
			}
		}
	}
}
