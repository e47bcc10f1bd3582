package onefoldtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onefold-go/onefold"
)

// Probe counts the calls of something outside that a handler calls directly: put it into the stand-in that the test
// gives to the handler, and give it to [New].
//
//	charge := onefoldtest.NewProbe("charge")
//	gateway := func(order string, cents int, key string) error {
//		charge.Called(key)
//		return nil
//	}
//	kit := onefoldtest.New(t, consumer.Config{Handler: billing(gateway)}, charge)
//
// A probe belongs to one kit. It may be called from several goroutines of a handler.
type Probe struct {
	name string
	kit  *Kit
}

// NewProbe makes a probe. name is what it is called in messages, and what they propose as the name of the call's
// idempotency key.
func NewProbe(name string) *Probe { return &Probe{name: name} }

// unbound is what Called panics with. The kit, if there is one, fails the test with it: a consumer takes the panic of a
// handler for a failed attempt.
type unbound string

// Called notes one call with the idempotency key that was passed on, or "" if there was none. It panics if the probe was
// not given to a kit, because then nobody would look.
func (p *Probe) Called(idempotencyKey string) {
	if p.kit == nil {
		panic(unbound(fmt.Sprintf("onefoldtest: probe %q belongs to no kit; give it to New", p.name)))
	}
	k := p.kit
	k.mu.Lock()
	var r *run
	if n := len(k.running); n > 0 {
		r = k.running[n-1]
		r.calls[p] = append(r.calls[p], idempotencyKey)
	}
	k.mu.Unlock()
	if r == nil {
		k.report("late "+p.name, "%q was called while no handler ran.\nA goroutine that a handler leaves behind works on after its "+
			"message is done, here or elsewhere: wait for it before the handler returns.", p.name)
	}
}

// checkProbes looks at the calls of all runs of each key.
func (w *world) checkProbes() {
	w.mu.Lock()
	byKey := map[onefold.Key][]*run{}
	var keys []onefold.Key
	for _, r := range w.runs {
		if byKey[r.key] == nil {
			keys = append(keys, r.key)
		}
		byKey[r.key] = append(byKey[r.key], r)
	}
	w.mu.Unlock()
	for _, key := range keys {
		for _, p := range w.kit.probes {
			w.checkProbe(p, key, byKey[key])
		}
	}
}

func (w *world) checkProbe(p *Probe, key onefold.Key, runs []*run) {
	k := w.kit
	w.mu.Lock()
	k.mu.Lock()
	verdict := judge(p, runs)
	k.mu.Unlock()
	w.mu.Unlock()
	if verdict == "" {
		return
	}
	k.report("probe "+p.name+" "+key.String(), "the handler ran %d times for %v and %s.\n"+
		"What a handler calls directly happens in each run. Pass on fx.IdempotencyKey(%q), which is\n"+
		"%q in every run of this key, or ask for the call through fx.",
		len(runs), key, verdict, p.name, key.IdempotencyKey(p.name))
}

// judge says what is wrong with the calls of one key's runs, or "". A call without a key counts in any run; keys are
// compared between runs that have read the same state, because a handler may decide by what it reads.
func judge(p *Probe, runs []*run) string {
	keyless := 0
	sets := make([][]string, len(runs))
	for i, r := range runs {
		sets[i] = passed(r, p)
		for _, key := range r.calls[p] {
			if key == "" {
				keyless++
			}
		}
	}
	if keyless > 1 {
		return fmt.Sprintf("called %q %d times without an idempotency key", p.name, keyless)
	}
	for i, again := range runs {
		for j, first := range runs[:i] {
			if !agree(sets[j], sets[i], first.complete() && again.complete()) && sameState(first, again) {
				return fmt.Sprintf("passed other idempotency keys to %q in each: run %d passed [%s], run %d [%s]", p.name,
					first.number, strings.Join(sets[j], " "), again.number, strings.Join(sets[i], " "))
			}
		}
	}
	return ""
}

// agree reports whether two runs of one key may have passed these sets of keys. If one of them did not complete, what
// one has passed must be a part of what the other has. That holds for sets and not for sequences, because a handler may
// call from several goroutines.
func agree(a, b []string, complete bool) bool {
	if complete {
		return slices.Equal(a, b)
	}
	return within(a, b) || within(b, a)
}

// passed is the set of keys that r passed on to p.
func passed(r *run, p *Probe) []string {
	return slices.Compact(slices.Sorted(slices.Values(r.calls[p])))
}
