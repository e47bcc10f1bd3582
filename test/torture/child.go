package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// spec tells a child process what it is. It travels in the environment.
type spec struct {
	Role      string // server, worker, sink or dump
	Name      string
	URL       string
	Port      int    // server: where it listens
	Dir       string // of the store, or of the server's streams
	Journal   string // file that it writes what happens to
	Part      int    // worker: which part of the orders
	Ordered   bool   // worker: OrderBy
	Point     string // die there
	Nth       int64  // when it is passed this often
	Retention time.Duration
}

const specVariable = "ONEFOLD_TORTURE"

// The lines that the rig writes to a child's standard input. Its end asks the child to end in order.
const sayWall = "wall " // followed by a duration: set the wall clock ahead

// ready is the first line of a child's output, followed by its process ID: under strace it is not the child of the rig.
const ready = "ready "

// serveSpec is what a child does. It returns the exit code.
func serveSpec(text string) int {
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		fmt.Fprintln(os.Stderr, "read the spec:", err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	role, ok := map[string]func(context.Context, spec, *offsetClock) error{
		"server": serve, "worker": work, "sink": sink, "dump": dump,
	}[s.Role]
	if !ok {
		fmt.Fprintf(os.Stderr, "unknown role %q\n", s.Role)
		return 2
	}
	var clock offsetClock
	if s.Role != "dump" { // which ends by itself
		go func() { // ends with the process
			listen(&clock)
			cancel()
		}()
	}
	if err := role(ctx, s, &clock); err != nil {
		fmt.Fprintln(os.Stderr, strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	return 0
}

// listen obeys the lines of standard input until it ends.
func listen(clock *offsetClock) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), sayWall); ok {
			if d, err := time.ParseDuration(text); err == nil {
				clock.set(d)
			}
		}
	}
}

func sayReady() { fmt.Println(ready + fmt.Sprint(os.Getpid())) }
