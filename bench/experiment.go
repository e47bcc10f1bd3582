package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"

	"github.com/dustin/go-humanize"
)

// experiment is one thing to measure.
type experiment struct {
	name   string
	about  string                  // one line, for the usage
	method string                  // how it measures, for whoever reads the table
	bytes  func(s settings) uint64 // how much room it needs on the disk
	run    func(context.Context, *bench) ([]row, error)
}

// experiments are all there are.
func experiments() []experiment { return []experiment{storeExperiment()} }

// bench is what an experiment works with.
type bench struct {
	settings
	work string // a directory of this run, removed at its end
	log  *log.Logger
}

// choose finds experiments by name.
func choose(names []string) ([]experiment, error) {
	if len(names) == 0 {
		return nil, errors.New("no experiment is named")
	}
	var chosen []experiment
	for _, name := range names {
		i := slices.IndexFunc(experiments(), func(e experiment) bool { return e.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no experiment %q; flags go before experiments", name)
		}
		chosen = append(chosen, experiments()[i])
	}
	return chosen, nil
}

// errNoRoom says that the disk has too little room for a run.
var errNoRoom = errors.New("not enough free space")

// measure runs one experiment in a directory of its own. The report holds what was measured before an
// error, too.
func measure(ctx context.Context, e experiment, set settings, logger *log.Logger) (r report, err error) {
	r = report{name: e.name, method: e.method}
	work, err := os.MkdirTemp(set.dir, "onefold-bench-*")
	if err != nil {
		return r, fmt.Errorf("make the directory of the run: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	free, err := freeBytes(work)
	if err != nil {
		return r, fmt.Errorf("free space of %s: %w", set.dir, err)
	}
	if need := e.bytes(set); need > free {
		return r, fmt.Errorf("%w: the run needs %s in %s and %s are free; name another place with -dir, or lower -records",
			errNoRoom, humanize.IBytes(need), set.dir, humanize.IBytes(free))
	}
	if r.machine, err = describe(ctx, work); err != nil {
		return r, fmt.Errorf("describe the machine: %w", err)
	}
	r.rows, err = e.run(ctx, &bench{settings: set, work: work, log: logger})
	return r, err
}
