package boltstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// The environment of a child process that opens damaged stores: where it writes what it finds, and the case
// it begins with, and whether it leaves most of them out.
const (
	damageDir  = "ONEFOLD_TEST_DAMAGE_DIR"
	damageFrom = "ONEFOLD_TEST_DAMAGE_FROM"
	damageFew  = "ONEFOLD_TEST_DAMAGE_FEW"
)

// The files of that directory.
const (
	findingsFile = "findings" // one a line
	caseFile     = "case"     // the case under way
)

// child is a process that opens damaged stores, so that one that ends it is seen.
type child struct {
	dir      string
	from     int
	few      bool // only some of the cases
	findings *os.File
}

// inChild returns what this process is to do, or nil if it is no child.
func inChild(t *testing.T) *child {
	dir := os.Getenv(damageDir)
	if dir == "" {
		return nil
	}
	from, err := strconv.Atoi(os.Getenv(damageFrom))
	require.NoError(t, err)
	f, err := os.OpenFile(filepath.Join(dir, findingsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return &child{dir, from, os.Getenv(damageFew) != "", f}
}

// at notes the case under way. It reports whether the case is still to be done.
func (c *child) at(t *testing.T, n int, name string) bool {
	if n < c.from {
		return false
	}
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, caseFile), fmt.Appendf(nil, "%d %s", n, name), 0o600))
	return true
}

func (c *child) found(t *testing.T, name, finding string) {
	if finding != "" {
		_, err := fmt.Fprintf(c.findings, "%s: %s\n", name, strings.ReplaceAll(finding, "\n", " | "))
		require.NoError(t, err)
	}
}

// runChildren runs the present test in child processes until one comes to its end, and returns what they have
// found. A process that ends before is a finding, and the next one goes on behind its case.
func runChildren(t *testing.T, seed uint64) []string {
	t.Helper()
	dir := t.TempDir()
	var findings []string
	for from := 0; ; {
		run := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-seed", fmt.Sprint(seed), "-ops", fmt.Sprint(*metamorphicOps))
		run.Env = append(os.Environ(), damageDir+"="+dir, damageFrom+"="+strconv.Itoa(from))
		if *metamorphicSeed == 0 {
			run.Env = append(run.Env, damageFew+"=1")
		}
		out, err := run.CombinedOutput()
		if err == nil {
			break
		}
		at, readErr := os.ReadFile(filepath.Join(dir, caseFile))
		require.NoError(t, readErr, "the child did not come to its first case: %v\n%s", err, out)
		n, name, _ := strings.Cut(string(at), " ")
		findings = append(findings, fmt.Sprintf("%s: the process ended: %v\n%s", name, err, out))
		from, err = strconv.Atoi(n)
		require.NoError(t, err)
		from++
	}
	b, err := os.ReadFile(filepath.Join(dir, findingsFile))
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		findings = append(findings, strings.TrimSpace(line))
	}
	return findings
}

// truth is what a store has answered, in the forms in which answers are compared.
type truth struct {
	records map[onefold.Key]string
	cells   map[cell]string
	rows    map[onefold.What]string
	options *boltstore.Options
}

// truth asks the reference.
func (w *world) truth() *truth {
	ctx := context.Background()
	o := w.options
	o.LockWait = -1
	is := &truth{
		map[onefold.Key]string{}, map[cell]string{}, map[onefold.What]string{},
		boltstore.WithHooks(o, boltstore.Hooks{HashBits: w.hooks.HashBits, SweepEvery: time.Hour}),
	}
	for _, k := range w.keys {
		if r, err := w.mem.Lookup(ctx, k); err == nil {
			is.records[k] = showRecord(&r)
		}
	}
	for _, table := range []string{"stock", "seen"} {
		for i := range 4 {
			c := cell{table, fmt.Sprint("k", i)}
			v, err := w.mem.Read(ctx, c.table, c.key)
			w.must(err)
			is.cells[c] = showValue(v, nil)
		}
	}
	for _, what := range []onefold.What{onefold.WhatWaiting, onefold.WhatParked} {
		items, err := scanAll(w.mem, onefold.Query{What: what}, 0)
		w.must(err)
		is.rows[what] = fmt.Sprint(shown(items))
	}
	return is
}

// named reports whether err is one that Open or a store may answer with when its files are not what they were.
func named(err error) bool {
	for _, is := range []error{onefold.ErrDamaged, onefold.ErrNotStore, onefold.ErrNewerFormat, onefold.ErrInUse} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// ask opens a store and returns what is wrong with its answers: the truth and named errors are right.
func (is *truth) ask(dir string) (finding string) {
	defer func() {
		if p := recover(); p != nil {
			finding = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	ctx := context.Background()
	s, err := boltstore.Open(dir, is.options)
	if err != nil {
		if named(err) {
			return ""
		}
		return fmt.Sprintf("open: an error without a name: %v", err)
	}
	var wrong []string
	check := func(what, want, got string, err error) {
		if err == nil && want != got {
			wrong = append(wrong, fmt.Sprintf("%s: %.300s, and it was %.300s", what, got, want))
		}
		if err != nil && !named(err) {
			wrong = append(wrong, fmt.Sprintf("%s: an error without a name: %v", what, err))
		}
	}
	n := uint64(0)
	for k, want := range is.records {
		n++
		g, err := s.Begin(ctx, onefold.Request{Key: k, Lease: time.Minute, Holder: onefold.Holder{Process: 7, Attempt: n}})
		check(fmt.Sprintf("%v is %v", k, g.Verdict), want, showRecord(g.Record), err)
	}
	for c, want := range is.cells {
		v, err := s.Read(ctx, c.table, c.key)
		check(fmt.Sprint("state ", c), want, showValue(v, nil), err)
	}
	for what, want := range is.rows {
		items, err := scanAll(s, onefold.Query{What: what}, 0)
		check(fmt.Sprint("rows ", what), want, fmt.Sprint(shown(items)), err)
	}
	_, err = scanAll(s, onefold.Query{What: onefold.WhatRecords}, 0)
	check("records", "", "", err)
	one := &onefold.Commit{Entry: onefold.Entry{Key: onefold.Key{ID: "after"}, Outcome: onefold.Succeeded, Retain: time.Hour}}
	check("commit", "", "", errors.Join(s.Commit(ctx, []*onefold.Commit{one}), one.Err))
	check("close", "", "", s.Close(ctx))
	if len(wrong) > 3 {
		wrong = append(wrong[:3], fmt.Sprintf("and %d more", len(wrong)-3))
	}
	return strings.Join(wrong, "; ")
}

// material is one store at several moments of its life, and another store.
type material struct {
	older   string // some Opens before
	crashed string // a copy made while it was open
	clean   string // closed in order, right after
	foreign string // another store that was closed in order
	is      *truth // of crashed and clean
}

// makeMaterial plays a history on two worlds and keeps copies.
func makeMaterial(t *testing.T, seed uint64) *material {
	root := memoryDir(t)
	m := &material{
		older: filepath.Join(root, "older"), crashed: filepath.Join(root, "crashed"),
		clean: filepath.Join(root, "clean"), foreign: filepath.Join(root, "foreign"),
	}
	played := func(seed uint64) *world {
		w := newWorld(root, seed)
		w.fill(300, 1e5*time.Hour)
		for _, s := range history(seed, *metamorphicOps/4) {
			moves()[s.move].do(w, rand.New(rand.NewPCG(s.seed, 2)))
		}
		require.NoError(t, w.err)
		return w
	}
	w := played(seed)
	require.NoError(t, copyFiles(w.dir, m.older))
	w.reopen(rand.New(rand.NewPCG(seed, 4)))
	w.fill(20, 1e5*time.Hour)
	require.NoError(t, w.err)
	require.NoError(t, copyFiles(w.dir, m.crashed))
	m.is = w.truth()
	require.NoError(t, w.bolt.Close(context.Background()))
	require.NoError(t, copyFiles(w.dir, m.clean))
	w.end()

	other := played(seed + 1)
	require.NoError(t, other.bolt.Close(context.Background()))
	require.NoError(t, copyFiles(other.dir, m.foreign))
	other.end()
	return m
}

// fill stores so many records that the file has pages of each kind.
func (w *world) fill(n int, retain time.Duration) {
	var batch []*bothCommits
	for range n {
		k := onefold.Key{Scope: "fill", ID: fmt.Sprint(len(w.keys))}
		w.keys = append(w.keys, k)
		e := onefold.Entry{Key: k, Outcome: onefold.Succeeded, Retain: retain, Result: []byte("filled")}
		if n%10 == 0 {
			w.effects++
			e.Effects = []onefold.Effect{{ID: fmt.Sprint("effect ", w.effects), Kind: onefold.KindMessage, Payload: fmt.Append(nil, "payload ", w.effects)}}
		}
		batch = append(batch, &bothCommits{mem: e, bolt: e})
	}
	w.commitBoth(batch)
}

// damageSeeds is what one run of the tests below goes through.
func damageSeeds() []uint64 {
	if *metamorphicSeed == 0 && *metamorphicRuns == 1 {
		return []uint64{1}
	}
	return seeds()
}

func TestDamagedFilesNeverGrantWhatWasAnswered(t *testing.T) {
	if c := inChild(t); c != nil {
		m := makeMaterial(t, *metamorphicSeed)
		r := rand.New(rand.NewPCG(*metamorphicSeed, 5))
		for n, harm := range harms(t, m, r) {
			if c.few && !harm.always && r.IntN(20) > 0 || !c.at(t, n, harm.name) {
				continue
			}
			dir := memoryDir(t)
			require.NoError(t, copyFiles(harm.base, dir))
			require.NoError(t, harm.do(dir), harm.name)
			if finding := m.is.ask(dir); finding != "" && harm.gap == "" {
				c.found(t, harm.name, finding)
			}
			require.NoError(t, os.RemoveAll(dir))
		}
		return
	}
	t.Parallel()
	for _, seed := range damageSeeds() {
		assert.Empty(t, runChildren(t, seed), "run it again: go test ./store/boltstore -run %s -seed %d -ops %d", t.Name(), seed, *metamorphicOps)
	}
}
