package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// options are what the command line says.
type options struct {
	length  time.Duration
	seed    uint64
	store   string
	faults  []string
	workers int
	rate    int
	every   time.Duration
	settle  time.Duration
	dir     string
	keep    bool
}

// parse reads the command line.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	var faults string
	f := flag.NewFlagSet("torture", flag.ContinueOnError)
	f.SetOutput(out)
	f.DurationVar(&o.length, "for", time.Minute, "how long faults strike")
	f.Uint64Var(&o.seed, "seed", 1, "decides orders and faults")
	f.StringVar(&o.store, "store", "bolt", "kind of store; bolt is the one there is")
	f.StringVar(&faults, "faults", "all", "comma-separated kinds of faults, all, or none; known: "+strings.Join(kindNames(), ", "))
	f.IntVar(&o.workers, "workers", 2, "worker processes, each with a part of the accounts; those with even numbers keep the order of an account")
	f.IntVar(&o.rate, "rate", 250, "fresh orders a second")
	f.DurationVar(&o.every, "every", 1500*time.Millisecond, "mean time between two faults")
	f.DurationVar(&o.settle, "settle", 2*time.Minute, "how long everything may take to end once all is well again")
	f.StringVar(&o.dir, "dir", "", "where everything is kept; default: a temporary directory, removed if nothing was found")
	f.BoolVar(&o.keep, "keep", false, "keep the directory")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; all settings are flags", f.Arg(0))
	}
	var err error
	if o.faults, err = parseFaults(faults); err != nil {
		return o, err
	}
	return o, o.check()
}

func (o options) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.length < time.Second {
		bad("-for is %v; give at least 1s", o.length)
	}
	if o.store != "bolt" {
		bad("-store is %q; bolt is the only kind of store there is", o.store)
	}
	if o.workers < 1 || o.workers > 64 {
		bad("-workers is %d; give 1 to 64", o.workers)
	}
	if o.rate < 1 {
		bad("-rate is %d; give at least 1", o.rate)
	}
	if o.every < 10*time.Millisecond {
		bad("-every is %v; give at least 10ms", o.every)
	}
	return errors.Join(errs...)
}

// parseFaults reads a list of kinds.
func parseFaults(list string) ([]string, error) {
	switch list {
	case "all":
		return kindNames(), nil
	case "none", "":
		return nil, nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if !slices.Contains(kindNames(), name) {
			return nil, fmt.Errorf("-faults has %q; known are all, none, %s", name, strings.Join(kindNames(), ", "))
		}
	}
	return names, nil
}

// command is how this run is repeated.
func (o options) command() string {
	faults := strings.Join(o.faults, ",")
	switch len(o.faults) {
	case 0:
		faults = "none"
	case len(kinds):
		faults = "all"
	}
	return fmt.Sprintf("go run ./test/torture -for %v -seed %d -faults %s -workers %d -rate %d -every %v", o.length, o.seed, faults, o.workers, o.rate, o.every)
}
