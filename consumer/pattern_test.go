package consumer

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// words returns all sequences of up to n of the tokens, joined by dots.
func words(n int, tokens ...string) []string {
	all := slices.Clone(tokens)
	for last := all; n > 1; n-- {
		var longer []string
		for _, word := range last {
			for _, token := range tokens {
				longer = append(longer, word+"."+token)
			}
		}
		all, last = append(all, longer...), longer
	}
	return all
}

// Every pattern of up to three tokens against every other and every subject of up to four.
func TestOverlapAndOrderOfPatternsAgreeWithWhatTheyMatch(t *testing.T) {
	subjects := words(4, "a", "b")
	patterns := slices.DeleteFunc(words(3, "a", "b", "*", ">"), func(p string) bool {
		return strings.Contains(p, ">.")
	})
	of := map[string]map[string]bool{}
	for _, p := range patterns {
		of[p] = map[string]bool{}
		for _, s := range subjects {
			if matches(p, s) {
				of[p][s] = true
			}
		}
	}
	for _, p := range patterns {
		for _, q := range patterns {
			both, ok := overlap(p, q)
			within := true
			for _, s := range subjects {
				assert.Equal(t, of[p][s] && of[q][s], ok && matches(both, s), "%q and %q of %q", p, q, s)
				within = within && (!of[p][s] || of[q][s])
			}
			if within && p != q {
				assert.Negative(t, moreSpecific(p, q), "%q lies in %q", p, q)
			}
		}
	}
}

func TestMatching(t *testing.T) {
	for _, tt := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a.c", false}, {"a", "a.b", false}, {"a.b", "a", false},
		{"a.*", "a.b", true}, {"a.*", "a", false}, {"a.*", "a.b.c", false}, {"*", "a", true},
		{"a.>", "a.b", true}, {"a.>", "a.b.c", true}, {"a.>", "a", false}, {">", "a", true}, {"*.>", "a", false}, {"*.>", "a.b", true},
		{"a.*.c", "a.b.c", true}, {"a.*.c", "a.b.d", false}, {"a>", "ab", false}, {"a*", "ab", false},
	} {
		assert.Equal(t, tt.want, matches(tt.pattern, tt.subject), "%q %q", tt.pattern, tt.subject)
	}
}
