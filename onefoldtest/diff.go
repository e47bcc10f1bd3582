package onefoldtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/onefold-go/onefold"
)

// line is one thing that can be compared, under a name that it has on both sides.
type line struct{ name, value string }

// linesOf is what a run asked for.
func linesOf(e *onefold.Entry) (lines []line) {
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, line{name, value})
		}
	}
	for i := range e.Effects {
		f := &e.Effects[i]
		name := fmt.Sprintf("effect %d, ", i)
		add(name+f.Kind, f.Target)
		add(name+"connection", f.Conn)
		add(name+"ID", f.ID)
		for _, h := range slices.Sorted(maps.Keys(f.Header)) {
			add(name+"header "+h, strings.Join(f.Header[h], ", "))
		}
		add(name+"payload", string(f.Payload))
		add(name+"order key", f.OrderKey)
		add(name+"timer", f.Timer)
		if f.Cancel {
			add(name+"cancel", "true")
		}
		if f.Once {
			add(name+"at most once", "true")
		}
	}
	for _, w := range e.Writes {
		value := string(w.Value)
		if w.Delete {
			value = "(deleted)"
		}
		name := fmt.Sprintf("state %q/%q", w.Table, w.Key)
		lines = append(lines, line{name, value})
		if w.Retain != 0 {
			add(name+" is kept for", w.Retain.String())
		}
	}
	add("result", string(e.Result))
	return lines
}

// diff shows the lines that differ, or is empty.
func diff(a, b []line) string {
	var out strings.Builder
	left, right := index(a), index(b)
	for _, l := range slices.Concat(a, b) {
		was, had := left[l.name]
		is, has := right[l.name]
		if had && has && was == is {
			continue
		}
		at := firstDifference(was, is)
		if had {
			fmt.Fprintf(&out, "  - %s: %s\n", l.name, excerpt(was, at))
		}
		if has {
			fmt.Fprintf(&out, "  + %s: %s\n", l.name, excerpt(is, at))
		}
		delete(left, l.name)
		delete(right, l.name)
	}
	return out.String()
}

func index(lines []line) map[string]string {
	m := make(map[string]string, len(lines))
	for _, l := range lines {
		m[l.name] = l.value
	}
	return m
}

func firstDifference(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// The part of a long value that is shown, and how much of it lies before the first difference.
const (
	maxShown    = 240
	shownBefore = 60
)

// excerpt is the part of s around position at, on one line.
func excerpt(s string, at int) string {
	head, tail := "", ""
	if len(s) > maxShown {
		from := max(0, min(at-shownBefore, len(s)-maxShown))
		if from > 0 {
			head = "..."
		}
		if from+maxShown < len(s) {
			tail = "..."
		}
		s = s[from:min(len(s), from+maxShown)]
	}
	for _, r := range s {
		if !strconv.IsPrint(r) || r == '\uFFFD' {
			return head + strconv.Quote(s) + tail
		}
	}
	return head + s + tail
}
