package arch

import (
	"fmt"
	"slices"
	"strings"
)

// modulePath is what imports of this module start with.
const modulePath = "github.com/onefold-go/onefold"

// anything stands for every import.
const anything = "*"

// own says which packages of the module a package may import outside tests: the key and each entry is a
// directory; "x/..." names the directories below x too, and "." the root. The most specific key counts.
var own = map[string][]string{
	".":         {},
	"dedupe":    {".", "internal/safecall", "internal/commit", "internal/pace"},
	"outbox":    {".", "internal/safecall", "internal/commit", "internal/pace"},
	"consumer":  {".", "dedupe", "internal/safecall", "internal/commit", "internal/pace"},
	"store/...": {"."},

	"onefoldtest":       {".", "consumer", "dedupe", "store/memstore", "store/storetest"},
	"consumer/protobuf": {"."},

	"store/boltstore/internal/...":  {"."},
	"store/boltstore/internal/disk": {},
	"store/boltstore/internal/sum":  {},
	"store/boltstore/internal/sealed": {
		".", "store/boltstore/internal/disk", "store/boltstore/internal/guard", "store/boltstore/internal/sum",
	},

	"internal/...":      {"."},
	"internal/commit":   {".", "internal/pace"},
	"internal/pace":     {},
	"internal/natstest": {},
	"internal/arch":     {},
	"examples/...":      {anything},
}

// ownInTests says what tests may import besides. A key as above; tests of all packages may import the
// package they test and what it imports.
var ownInTests = map[string][]string{
	".":            {"store/memstore", "store/boltstore", "consumer", "dedupe", "outbox"}, // the table of defaults
	"dedupe":       {"store/...", "internal/natstest"},
	"outbox":       {"store/...", "internal/natstest"},
	"consumer":     {"store/...", "internal/natstest", "outbox"},
	"store/...":    {"store/storetest", "store/memstore"},
	"internal/...": {},
	"examples/...": {anything},

	"internal/crashtest": {anything}, // kills whole processes: it tests all parts together
	"internal/sim":       {anything}, // the same in one process, without goroutines and files
}

// foreign says who may import packages of other modules, by the start of their path.
var foreign = map[string]struct {
	in    []string // directories, as above
	tests bool     // tests of any package too
}{
	"go.etcd.io/bbolt":                  {in: []string{"store/boltstore", "store/boltstore/...", "examples/..."}},
	"github.com/FastFilter/xorfilter":   {in: []string{"store/boltstore/internal/sealed"}},
	"github.com/dchest/siphash":         {in: []string{"store/boltstore"}},
	"github.com/nats-io/nats.go":        {in: []string{"consumer", "outbox", "internal/natstest", "examples/..."}, tests: true},
	"github.com/nats-io/nats-server/v2": {in: []string{"internal/natstest", "examples/..."}, tests: true},
	"golang.org/x/sync":                 {in: []string{"consumer"}},
	"golang.org/x/time/rate":            {in: []string{"consumer"}, tests: true},
	"github.com/cenkalti/backoff/v4":    {in: []string{"consumer", "outbox", "internal/pace"}, tests: true},
	"google.golang.org/protobuf":        {in: []string{"consumer/protobuf"}},
	"github.com/stretchr/testify":       {in: []string{"store/storetest"}, tests: true}, // storetest is a test kit
	"go.uber.org/goleak":                {tests: true},
}

// The limits of length, in lines.
const (
	maxFileLines     = 420
	maxFunctionLines = 65
)

// longer lists what may exceed a limit, with the reason: a file as "dir/file.go", a function as
// "dir/file.go:Name".
var longer = map[string]string{}

// badNames say nothing about what a package is for.
var badNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "lib"}

// importProblem says why a file of package dir may not import path, or "".
func importProblem(dir string, test bool, path string) string {
	switch rest, ours := strings.CutPrefix(path, modulePath); {
	case ours && (rest == "" || rest[0] == '/'):
		target := strings.TrimPrefix(rest, "/")
		if target == "" {
			target = "."
		}
		return ownProblem(dir, test, target)
	case strings.Contains(strings.Split(path, "/")[0], "."):
		return foreignProblem(dir, test, path)
	}
	return "" // the standard library
}

func ownProblem(dir string, test bool, target string) string {
	if target == dir || target != "." && strings.HasPrefix(target, dir+"/") && dir != "." {
		return "" // itself, from its external tests, and what is below it
	}
	allowed, known := rule(own, dir)
	if !known {
		return fmt.Sprintf("package %s has no rule in internal/arch/rules_test.go; add one", dir)
	}
	if test {
		more, _ := rule(ownInTests, dir)
		allowed = slices.Concat(allowed, more)
	}
	if covers(allowed, target) {
		return ""
	}
	return fmt.Sprintf("%s must not import %s; it may import %v", dir, target, allowed)
}

func foreignProblem(dir string, test bool, path string) string {
	for module, r := range foreign {
		if path != module && !strings.HasPrefix(path, module+"/") {
			continue
		}
		if test && r.tests || covers(r.in, dir) {
			return ""
		}
		return fmt.Sprintf("%s must not import %s; only %v may (tests: %t)", dir, path, r.in, r.tests)
	}
	return fmt.Sprintf("%s imports %s, which no rule in internal/arch/rules_test.go knows", dir, path)
}

// rule finds the entry of the most specific key for dir.
func rule(rules map[string][]string, dir string) (entry []string, known bool) {
	if entry, known = rules[dir]; known {
		return entry, true
	}
	best := ""
	for key, e := range rules {
		if covers([]string{key}, dir) && len(key) > len(best) {
			best, entry, known = key, e, true
		}
	}
	return entry, known
}

// covers reports whether one of the patterns names dir.
func covers(patterns []string, dir string) bool {
	for _, p := range patterns {
		parent, below := strings.CutSuffix(p, "/...")
		if p == anything || p == dir || below && strings.HasPrefix(dir, parent+"/") {
			return true
		}
	}
	return false
}
