package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestImportsPointOneWay(t *testing.T) {
	for _, f := range moduleFiles(t) {
		for _, imp := range f.tree.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			require.NoError(t, err)
			if problem := importProblem(f.dir, f.test, path); problem != "" {
				t.Errorf("%s:%d: %s", f.name, f.line(imp.Pos()), problem)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range moduleFiles(t) {
		if !f.test {
			documented[f.dir] = documented[f.dir] || f.tree.Doc != nil
		}
	}
	for dir, ok := range documented {
		assert.True(t, ok, "package %s has no package comment; add a doc.go that says what it is for and what it may import", dir)
	}
}

func TestNoPackageIsNamedAfterNothing(t *testing.T) {
	for _, f := range moduleFiles(t) {
		for part := range strings.SplitSeq(f.dir, "/") {
			assert.NotContains(t, badNames, part, "%s: name the package by what it is for", f.name)
		}
		assert.NotContains(t, badNames, strings.TrimSuffix(f.tree.Name.Name, "_test"), "%s: name the package by what it is for", f.name)
	}
}

func TestFilesAndFunctionsStayShort(t *testing.T) {
	var used []string
	tooLong := func(name string, lines, limit int) bool {
		if lines <= limit {
			return false
		}
		if longer[name] != "" {
			used = append(used, name)
			return false
		}
		return true
	}
	for _, f := range moduleFiles(t) {
		if tooLong(f.name, f.lines(), maxFileLines) {
			t.Errorf("%s has %d lines, the limit is %d; split it by concern", f.name, f.lines(), maxFileLines)
		}
		for _, declaration := range f.tree.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := f.line(function.End()) - f.line(function.Pos()) + 1
			if tooLong(f.name+":"+function.Name.Name, lines, maxFunctionLines) {
				t.Errorf("%s:%d: %s has %d lines, the limit is %d; split it",
					f.name, f.line(function.Pos()), function.Name.Name, lines, maxFunctionLines)
			}
		}
	}
	for name := range longer {
		assert.True(t, slices.Contains(used, name), "%s is short enough; remove its exception", name)
	}
}

func TestTestsDoNotSleep(t *testing.T) {
	for _, f := range moduleFiles(t) {
		if !f.test {
			continue
		}
		for _, at := range sleeps(f.tree) {
			t.Errorf("%s:%d: a test sleeps; wait for an event, or use testing/synctest", f.name, f.line(at))
		}
	}
}

func TestTheSleepRuleFindsSleepsInDisguise(t *testing.T) {
	for body, want := range map[string]int{
		"time.Sleep(d)":                                   1,
		"f(time.Sleep)":                                   1,
		"<-time.After(d)":                                 1,
		"_ = <-time.After(d)":                             1,
		"<-(time.After(d))":                               1,
		"<-time.NewTimer(d).C":                            1,
		"<-time.Tick(d)":                                  1,
		"select { case <-time.After(d): }":                1,
		"select { case <-done: case <-time.After(d): }":   0, // the bound of a wait for an event
		"<-done; timer := time.NewTimer(d); timer.Stop()": 0,
		"other.Sleep(d)":                                  0,
	} {
		tree, err := parser.ParseFile(token.NewFileSet(), "x_test.go", "package x\nfunc f() {\n"+body+"\n}", 0)
		require.NoError(t, err)
		assert.Len(t, sleeps(tree), want, body)
	}
}

func TestTheImportRulesRefuseWhatTheyShould(t *testing.T) {
	const us = modulePath
	tests := []struct {
		dir  string
		test bool
		path string
		ok   bool
	}{
		{".", false, "context", true},
		{".", false, us + "/dedupe", false},
		{".", false, "github.com/stretchr/testify/assert", false},
		{".", true, "github.com/stretchr/testify/assert", true},
		{".", true, us, true},
		{".", true, us + "/store/memstore", true},
		{".", true, us + "/consumer", true},
		{".", false, us + "/consumer", false},
		{"dedupe", false, us, true},
		{"dedupe", false, us + "/outbox", false},
		{"dedupe", true, us + "/outbox", false},
		{"dedupe", false, us + "/store/memstore", false},
		{"dedupe", true, us + "/store/memstore", true},
		{"dedupe", false, "github.com/nats-io/nats.go", false},
		{"outbox", false, us + "/dedupe", false},
		{"outbox", false, us + "/consumer", false},
		{"outbox", false, "github.com/nats-io/nats.go/jetstream", true},
		{"outbox", false, "github.com/nats-io/nats-server/v2/server", false},
		{"outbox", true, "github.com/nats-io/nats-server/v2/server", true},
		{"consumer", false, us + "/outbox", false},
		{"consumer", true, us + "/outbox", true},
		{"consumer", false, us + "/internal/pace", true},
		{"consumer", false, us + "/internal/commit", true},
		{"outbox", false, us + "/internal/safecall", true},
		{"outbox", false, us + "/internal/pace", true},
		{"dedupe", false, us + "/internal/commit", true},
		{"dedupe", false, "github.com/cenkalti/backoff/v4", false},
		{"internal/pace", false, "github.com/cenkalti/backoff/v4", true},
		{"internal/pace", false, us, false},
		{"internal/commit", false, us + "/internal/pace", true},
		{"internal/commit", false, us + "/internal/safecall", false},
		{"internal/commit", false, "github.com/cenkalti/backoff/v4", false},
		{"consumer", false, us + "/internal/safecall", true},
		{"consumer", false, us + "/internal/natstest", false},
		{"consumer", true, us + "/internal/natstest", true},
		{"consumer", false, us + "/store/boltstore", false},
		{"consumer", false, "go.etcd.io/bbolt", false},
		{"consumer", true, "go.etcd.io/bbolt", false},
		{"store/boltstore", false, "go.etcd.io/bbolt", true},
		{"store/boltstore", false, us + "/store/memstore", false},
		{"store/boltstore", true, us + "/store/storetest", true},
		{"store/memstore", false, us + "/consumer", false},
		{"store/memstore", false, "go.etcd.io/bbolt", false},
		{"internal/natstest", false, "github.com/nats-io/nats-server/v2/server", true},
		{"internal/safecall", false, us + "/outbox", false},
		{"examples/quickstart", false, us + "/store/boltstore", true},
		{"examples/quickstart", false, us + "/consumer", true},
		{"examples/quickstart", false, "github.com/nats-io/nats-server/v2/server", true},
		{"newcomer", false, us, false},
		{"consumer", false, "github.com/somebody/something", false},
	}
	for _, tt := range tests {
		problem := importProblem(tt.dir, tt.test, tt.path)
		assert.Equal(t, tt.ok, problem == "", "%s (test: %t) imports %s: %q", tt.dir, tt.test, tt.path, problem)
	}
}
