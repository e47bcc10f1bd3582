package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/onefold-go/onefold"
)

// journal is a file to which a process writes what happens, one line and one system call for each event, so that
// nothing is missing when it is killed.
type journal struct {
	file   *os.File
	who    string
	point  string // die when this is passed
	nth    int64
	passed atomic.Int64
}

func openJournal(s spec) (*journal, error) {
	file, err := os.OpenFile(s.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &journal{file: file, who: s.Name, point: s.Point, nth: s.Nth}, nil
}

// note writes a line: when (in nanoseconds of Unix time, by the machine's own clock), who, what, which ID, and more.
func (j *journal) note(what, id string, more ...any) {
	text := fmt.Sprintf("%d %s %s %s", time.Now().UnixNano(), j.who, what, orDash(id))
	if len(more) > 0 {
		text += " " + strings.TrimSuffix(fmt.Sprintln(more...), "\n")
	}
	_, _ = j.file.WriteString(text + "\n") // a journal that cannot be written only makes a shorter history
	if j.point == what && j.passed.Add(1) == j.nth {
		die()
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return strings.ReplaceAll(s, " ", "_")
}

// die ends this process as the kernel does when memory runs out.
func die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // the signal is on its way
}

// observer writes everything down. Crash points have the names of docs/guarantees.md.
func (j *journal) observer() *onefold.Observer {
	delivery := func(what string) func(onefold.DeliveryEvent) {
		return func(e onefold.DeliveryEvent) { j.note(what, e.Key.ID, e.Sequence, e.Attempt, e.Token, e.Class, e.Err) }
	}
	row := func(what string) func(onefold.RowEvent) {
		return func(e onefold.RowEvent) { j.note(what, e.Key.ID, e.ID, e.Attempt, e.Class, e.Err) }
	}
	return &onefold.Observer{
		Received: func(e onefold.DeliveryEvent) { j.note("received", "", e.Sequence) },
		Claimed:  delivery("claimed"), Handled: delivery("handled"), Committed: delivery("committed"), Acked: delivery("acked"),
		Duplicate: delivery("duplicate"), Followed: delivery("followed"), Retried: delivery("retried"), DeadLettered: delivery("dead"),
		GivenBack: delivery("given-back"), Dropped: delivery("dropped"), Lost: delivery("lost"), Zombie: delivery("zombie"), ZombieEnded: delivery("zombie-ended"),
		Fetched: row("fetched"), Published: row("published"), Settled: row("settled"), RowDelayed: row("row-delayed"), RowParked: row("row-parked"),
		State:  func(e onefold.StateEvent) { j.note("state", "", e.Part, e.From, e.To, e.Err) },
		Warned: func(e onefold.WarnEvent) { j.note("warned", "", e) },
	}
}

// points are the named crash points.
var points = []string{"received", "claimed", "handled", "committed", "acked", "fetched", "published", "settled"}

// keepStats writes what this process needs, once a second, for as long as it lives.
func (j *journal) keepStats() {
	for range time.Tick(time.Second) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		j.note("stats", "", m.HeapAlloc, runtime.NumGoroutine())
	}
}

// readJournals calls f with every line of the journals below dir.
func readJournals(dir string, f func(fields []string)) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	if err != nil {
		return err
	}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if fields := strings.SplitN(lines.Text(), " ", 5); len(fields) >= 4 {
				f(fields)
			}
		}
		err = lines.Err()
		_ = file.Close()
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
	return nil
}
