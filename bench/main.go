// Command bench measures onefold and holds what it measures to bars. It prints one markdown table for each
// experiment, with the machine and the command that made it, and ends with status 1 if a bar is missed.
//
// Each experiment is one entry of the list in experiment.go, with a method that can be read before its
// numbers. The module may import everything of onefold that users may import, and libraries of its own, which the
// library does not have to carry.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
)

// The exit statuses.
const (
	statusGood   = 0
	statusMissed = 1 // a bar was missed
	statusFailed = 2 // bad arguments, or something could not be measured
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the command: the reports go to out, and what happens meanwhile to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) int {
	logger := log.New(progress, "", log.Ltime)
	if len(args) > 0 && args[0] == probeCommand {
		if err := answerProbe(ctx, args[1:], out); err != nil {
			logger.Print(err)
			return statusFailed
		}
		return statusGood
	}
	set, chosen, err := parse(args, progress)
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			logger.Print(err)
		}
		return statusFailed
	}
	status := statusGood
	for _, e := range chosen {
		r, err := measure(ctx, e, set, logger)
		r.command = strings.Join(append([]string{"go run ./bench"}, args...), " ")
		if err := r.print(out); err != nil {
			logger.Print(err)
			return statusFailed
		}
		if err != nil {
			logger.Printf("%s: %v", e.name, err)
			return statusFailed
		}
		if r.missed() {
			status = statusMissed
		}
	}
	return status
}

// settings are what the flags say.
type settings struct {
	dir     string // where files go
	records int    // live records of a full store
	segment int    // records of one segment
	short   bool
	hundred bool
}

// The sizes of the runs.
const (
	fullRecords    = 20_000_000
	fullSegment    = 500_000
	shortRecords   = 200_000
	shortSegment   = 10_000
	hundredRecords = 100_000_000
	leastSegments  = 8 // of the records of a run: fewer show no merging
)

// parse reads the arguments. What is wrong with flags themselves has been printed to messages already.
func parse(args []string, messages io.Writer) (settings, []experiment, error) {
	var set settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(messages)
	flags.StringVar(&set.dir, "dir", os.TempDir(), "where to make the directory of the run, which is removed at the end")
	flags.IntVar(&set.records, "records", 0, fmt.Sprintf("live records of the full store (default %d, with -short %d)", fullRecords, shortRecords))
	flags.BoolVar(&set.short, "short", false, "a small run with wide bars, for CI")
	flags.BoolVar(&set.hundred, "hundred", false, "report on 100 million live records as well")
	flags.Usage = func() {
		lines := "usage: go run ./bench [flags] <experiment ...>\n"
		for _, e := range experiments() {
			lines += fmt.Sprintf("  %-8s %s\n", e.name, e.about)
		}
		_, _ = io.WriteString(messages, lines)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return settings{}, nil, flag.ErrHelp // Parse has said what is wrong
	}
	set.size()
	if least := leastSegments * set.segment; set.records < least {
		return settings{}, nil, fmt.Errorf("-records is %d; use at least %d, which is %d segments", set.records, least, leastSegments)
	}
	if set.hundred && (set.short || set.records >= hundredRecords) {
		return settings{}, nil, errors.New("-hundred goes on from a full run of fewer records; leave out -short or lower -records")
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		flags.Usage()
		return settings{}, nil, err
	}
	return set, chosen, nil
}

// size fills in the sizes that follow from the other flags.
func (s *settings) size() {
	records := fullRecords
	s.segment = fullSegment
	if s.short {
		records, s.segment = shortRecords, shortSegment
	}
	if s.records == 0 {
		s.records = records
	}
}
