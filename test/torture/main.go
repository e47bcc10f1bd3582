package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	if text, child := os.LookupEnv(specVariable); child {
		os.Exit(serveSpec(text))
	}
	os.Exit(torture(os.Args[1:]))
}

// torture makes one run and returns the exit code: 0 if every promise was kept, 1 if not, 2 if that is not known.
func torture(args []string) int {
	o, err := parse(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := makeDir(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	file, err := os.Create(filepath.Join(dir, "torture.log"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer func() { _ = file.Close() }()
	log.SetOutput(file)
	r := &rig{options: o, dir: dir, ledger: newLedger()}
	code, err := r.judge(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\nsee %s\n", err, dir)
		return 2
	}
	if code == 0 && !o.keep && o.dir == "" {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return code
}

// judge runs the rig and says what it has found.
func (r *rig) judge(ctx context.Context) (int, error) {
	start := time.Now()
	f, err := r.run(ctx)
	if err != nil {
		return 2, err
	}
	found := check(f)
	s := r.summary(f, found, time.Since(start))
	if len(found) > 0 {
		r.explain(os.Stdout, found)
	}
	line, err := s.line()
	if err != nil {
		return 2, err
	}
	fmt.Println(line)
	if len(found) > 0 {
		return 1, nil
	}
	return 0, nil
}
