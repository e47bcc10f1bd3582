package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// probeCommand is the first argument of the bench when it runs itself: what opening a store costs can only
// be seen in a process that does nothing else.
const probeCommand = "probe"

// probes is how many processes one answer is the median of.
const probes = 5

// probe is what such a process saw.
type probe struct {
	Ready     time.Duration // from before Open to the first answer of Begin
	Anonymous uint64        // bytes of RssAnon
	Heap      uint64        // bytes of live objects on the heap
}

// answerProbe is the child: it opens the store that args name, uses it a little, and prints a probe.
func answerProbe(ctx context.Context, args []string, out io.Writer) (err error) {
	if len(args) != 2 {
		return fmt.Errorf("%s is for the bench itself; use an experiment", probeCommand)
	}
	segment, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("%s: %w", probeCommand, err)
	}
	start := time.Now()
	s, err := boltstore.Open(args[0], &boltstore.Options{SegmentRecords: segment})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	var p probe
	const keys = 1000 // whatever is loaded with the first use is loaded then
	for n := range uint64(keys) {
		if err := touch(ctx, s, n); err != nil {
			return err
		}
		if n == 0 {
			p.Ready = time.Since(start)
		}
	}
	debug.FreeOSMemory()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	p.Heap = heap.HeapAlloc
	if p.Anonymous, err = anonymousBytes(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(p)
}

// touch asks for a key that nobody has stored and gives it back.
func touch(ctx context.Context, s onefold.Store, n uint64) error {
	g, err := begin(ctx, s, foreignKey(n), n)
	if err != nil {
		return err
	}
	if g.Verdict != onefold.Granted {
		return fmt.Errorf("begin of a fresh key: %v", g.Verdict)
	}
	return s.Release(ctx, g.Claim, onefold.Failure{})
}

// foreignKey is a key that no load commits.
func foreignKey(n uint64) onefold.Key {
	k := recordKey(n)
	k.ID = "x" + k.ID[1:]
	return k
}

func begin(ctx context.Context, s onefold.Store, k onefold.Key, n uint64) (onefold.Grant, error) {
	return s.Begin(ctx, onefold.Request{Key: k, Lease: time.Minute, Holder: onefold.Holder{Process: 1, Attempt: n + 1}})
}

// askProbe runs the child on the store in dir, which nobody may have open.
func askProbe(ctx context.Context, dir string, segment int) (p probe, err error) {
	self, err := os.Executable()
	if err != nil {
		return p, err
	}
	child := exec.CommandContext(ctx, self, probeCommand, dir, strconv.Itoa(segment))
	child.Stderr = os.Stderr
	out, err := child.Output()
	if err != nil {
		return p, fmt.Errorf("probe of %s: %w", dir, err)
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return p, fmt.Errorf("probe of %s: %w", dir, err)
	}
	return p, nil
}

// medianProbe takes the median of each number over several probes.
func medianProbe(ask func() (probe, error)) (probe, error) {
	var ready []time.Duration
	var anonymous, heap []uint64
	for range probes {
		p, err := ask()
		if err != nil {
			return probe{}, err
		}
		ready, anonymous, heap = append(ready, p.Ready), append(anonymous, p.Anonymous), append(heap, p.Heap)
	}
	return probe{median(ready), median(anonymous), median(heap)}, nil
}
