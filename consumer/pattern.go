package consumer

import (
	"cmp"
	"strings"
)

// Pure functions of subject patterns. "*" stands for one token, a last ">" for one or more.

func hasWildcard(pattern string) bool {
	for token := range strings.SplitSeq(pattern, ".") {
		if token == "*" || token == ">" {
			return true
		}
	}
	return false
}

// matches reports whether a subject is one of a pattern's. It runs for every message and allocates nothing.
func matches(pattern, subject string) bool {
	for {
		p, restOfPattern, morePattern := strings.Cut(pattern, ".")
		s, restOfSubject, moreSubject := strings.Cut(subject, ".")
		switch {
		case p == ">":
			return true
		case p != "*" && p != s, morePattern != moreSubject:
			return false
		case !morePattern:
			return true
		}
		pattern, subject = restOfPattern, restOfSubject
	}
}

// overlap returns the pattern of the subjects that both a and b match, if there are any.
func overlap(a, b string) (string, bool) {
	var both []string
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for len(x) > 0 && len(y) > 0 {
		switch {
		case x[0] == ">":
			return strings.Join(append(both, y...), "."), true
		case y[0] == ">":
			return strings.Join(append(both, x...), "."), true
		case x[0] == "*":
			both = append(both, y[0])
		case y[0] == "*", x[0] == y[0]:
			both = append(both, x[0])
		default:
			return "", false
		}
		x, y = x[1:], y[1:]
	}
	return strings.Join(both, "."), len(x) == len(y)
}

// moreSpecific orders patterns so that one which lies in another comes before it: it has at least as many
// plain tokens; with as many, it has no ">" or is the longer one.
func moreSpecific(a, b string) int {
	plainA, openA, lenA := weigh(a)
	plainB, openB, lenB := weigh(b)
	if c := cmp.Compare(plainB, plainA); c != 0 {
		return c
	}
	if openA != openB {
		if openB {
			return -1
		}
		return 1
	}
	if c := cmp.Compare(lenB, lenA); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// weigh counts the tokens of a pattern, the plain ones among them, and reports whether it ends in ">".
func weigh(pattern string) (plain int, open bool, tokens int) {
	for token := range strings.SplitSeq(pattern, ".") {
		tokens++
		switch token {
		case ">":
			open = true
		case "*":
		default:
			plain++
		}
	}
	return plain, open, tokens
}
