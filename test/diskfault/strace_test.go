package diskfault

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// watched are the calls that strace looks at: all that change files, and those that the model of a disk has
// to refuse because it does not know them. A "?" is for names that a machine may not have.
var watched = strings.Join([]string{
	"?open", "openat", "?creat", "pwrite64", "write", "fdatasync", "fsync", "fallocate", "ftruncate", "?truncate",
	"?rename", "?renameat", "?renameat2", "?unlink", "unlinkat", "?mkdir", "mkdirat", "?rmdir", "?link", "?linkat",
	"mmap", "?writev", "?pwritev", "?pwritev2", "?copy_file_range", "?sendfile", "?splice", "?sync_file_range",
}, ",")

// longestRun ends a worker that hangs.
const longestRun = 2 * time.Minute

// allBytes is for the model of a disk; otherwise strace shows what is enough for lines and names.
const (
	allBytes  = 64 << 20
	someBytes = 200
)

// run is a worker that has ended.
type run struct {
	plan     plan
	trace    *trace
	facts    facts
	lines    []string
	breaches []string // of rules that can be seen in the lines alone
	panicked string   // what the process said when it ended by a panic
}

// shot is one run that is to be made.
type shot struct {
	plan    plan
	earlier facts    // of the same directory
	shown   int      // bytes of each string that the trace has
	faults  []string // expressions of strace's -e inject
	mayEnd  bool     // the process may end by a panic
}

// strace runs a worker with faults put in.
func strace(t *testing.T, p plan, shown int, faults ...string) *run {
	t.Helper()
	return shot{plan: p, shown: shown, faults: faults}.run(t)
}

// run runs the worker to its end and hears what it said.
func (s shot) run(t *testing.T) *run {
	t.Helper()
	record := filepath.Join(rootOf(s.plan), "trace")
	ctx, cancel := context.WithTimeout(context.Background(), longestRun)
	defer cancel()
	cmd := s.command(ctx, t, record)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	require.NoError(t, ctx.Err(), "the worker hangs: %v\n%s\n%s", s.faults, out.String(), errs.String())
	f, openErr := os.Open(record)
	require.NoError(t, openErr)
	r := &run{plan: s.plan, facts: s.earlier.clone()}
	r.trace, openErr = readTrace(f)
	require.NoError(t, openErr)
	require.NoError(t, f.Close())
	require.NoError(t, os.Remove(record))
	require.NoError(t, r.trace.resolve())
	if err != nil && !r.trace.killed {
		require.True(t, s.mayEnd, "the worker has died: %v\n%s\n%s", s.faults, out.String(), errs.String())
		r.panicked = errs.String()
	}
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSpace(line)
		r.lines = append(r.lines, line)
		if b := r.facts.hear(line); b != "" {
			r.breaches = append(r.breaches, b)
		}
	}
	return r
}

// command is strace with a worker below it.
func (s shot) command(ctx context.Context, t *testing.T, record string) *exec.Cmd {
	t.Helper()
	_, err := exec.LookPath("strace")
	require.NoError(t, err, "these tests need strace: apt-get install strace")
	text, err := json.Marshal(s.plan)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	// Without --seccomp-bpf: strace 6.1 puts no signals and no delays in with it.
	args := []string{"-f", "-q", "-y", "-xx", "-s", fmt.Sprint(s.shown), "-o", record, "-e", "trace=" + watched}
	for _, f := range s.faults {
		args = append(args, "-e", "inject="+f)
	}
	cmd := exec.CommandContext(ctx, "strace", append(args, "--", self)...)
	// A worker that hangs says where, and is not left behind when strace ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGQUIT) }
	cmd.WaitDelay = 10 * time.Second
	// Few threads and no collector: faults are counted by thread.
	cmd.Env = append(os.Environ(), planVariable+"="+string(text), fmt.Sprintf("GOMAXPROCS=%d", min(s.plan.Lanes, 2)), "GOGC=off", "GOTRACEBACK=all")
	return cmd
}

// newInspector starts an inspector that ends with the test.
func newInspector(t *testing.T) *inspector {
	i := &inspector{}
	t.Cleanup(func() { _ = i.end() })
	return i
}

func (p plan) question(f facts) question {
	return question{Dir: p.Dir, Seed: p.Seed, Value: p.Value, Seg: p.Segment, All: p.First + p.Entries*p.Lanes, Facts: f}
}

// check holds everything about a run that does not depend on the fault.
func (r *run) check(t *testing.T, i *inspector) {
	t.Helper()
	assert.Empty(t, r.breaches)
	assert.Empty(t, checkOrder(r.trace, r.plan).breaches)
	q := r.plan.question(r.facts)
	q.Again = true
	f, err := i.ask(q)
	if assert.NoError(t, err) {
		assert.True(t, f.Opened, "%s: %s", f.Class, f.Text)
		assert.Empty(t, f.Breaches)
	}
	if t.Failed() {
		t.Logf("what the worker said:\n%s", strings.Join(r.lines, "\n"))
	}
}

// small is a plan that goes through everything in little time.
func small(dir string, seed uint64) plan {
	return plan{Dir: filepath.Join(dir, "store"), Seed: seed, Entries: 40, Lanes: 1, Batch: 4, Segment: 16, Value: 3000}
}

// plain is a plan in which nothing is written but what the worker asks for: no segment is full or old enough to be
// sealed.
func plain(dir string, seed uint64) plan {
	p := small(dir, seed)
	p.Segment = 0
	return p
}

// moments are the numbers from 1 to all, or a sample of them.
func moments(seed uint64, all, sample int) []int {
	r := random(seed)
	list := r.Perm(all)
	if !*long && len(list) > sample {
		list = list[:sample]
	}
	for i := range list {
		list[i]++
	}
	return list
}
