package sim

import (
	"fmt"
	"slices"
	"strings"
)

// shrink leaves out of a schedule that fails what is not needed for it to fail, in whatever way, and makes what is left
// plain. It ends: each try that it keeps is shorter, or has a smaller argument.
func shrink(s schedule, b *breakage) schedule {
	failing := func(candidate schedule) bool { return play(candidate, b) != "" }
	for smaller := true; smaller; {
		smaller = false
		for size := max(len(s.steps)/2, 1); size > 0; size /= 2 {
			for at := 0; at+size <= len(s.steps); {
				candidate := schedule{s.setup, slices.Delete(slices.Clone(s.steps), at, at+size)}
				if failing(candidate) {
					s, smaller = candidate, true
				} else {
					at += size
				}
			}
		}
		if plain, ok := simplify(s, failing); ok {
			s, smaller = plain, true
		}
	}
	return s
}

// simplify sets arguments to 0 where the schedule fails nevertheless.
func simplify(s schedule, failing func(schedule) bool) (schedule, bool) {
	simpler := false
	try := func(change func(*schedule) bool) {
		candidate := schedule{s.setup, slices.Clone(s.steps)}
		if change(&candidate) && failing(candidate) {
			s, simpler = candidate, true
		}
	}
	zero := func(n *uint8) bool {
		changed := *n != 0
		*n = 0
		return changed
	}
	try(func(c *schedule) bool { return zero(&c.setup) })
	for i := range s.steps {
		try(func(c *schedule) bool { return zero(&c.steps[i].a) })
		try(func(c *schedule) bool { return zero(&c.steps[i].b) })
	}
	return s, simpler
}

// report shrinks a schedule that fails, and tells it in words, with what happened.
func report(s schedule, b *breakage) string {
	first := play(s, b)
	short := shrink(s, b)
	w := run(short, b, true)
	var out strings.Builder
	fmt.Fprintf(&out, "%s\nIt takes %d of %d steps", w.wrong, len(short.steps), len(s.steps))
	if first != w.wrong {
		fmt.Fprintf(&out, " (all of them: %s)", first)
	}
	fmt.Fprintf(&out, ", with MaxAttempts %d, ParkUnknown %t and a lease of %v:\n", w.setup.maxAttempts, w.setup.park, w.setup.lease)
	for i, one := range short.steps {
		fmt.Fprintf(&out, "%3d. %v\n", i+1, one)
	}
	fmt.Fprintf(&out, "What happens:\n%s\n", strings.Join(w.trace, "\n"))
	return out.String()
}
