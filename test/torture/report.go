package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report is the last line of a run.
type report struct {
	Seconds    int            `json:"seconds"`
	Published  int            `json:"published"`
	Deliveries int            `json:"deliveries"`
	Effects    int            `json:"effects"`
	Dead       int            `json:"dead"`
	Faults     map[string]int `json:"faults"`
	Deaths     int            `json:"deaths"` // of processes by SIGKILL
	Lost       int            `json:"lost"`
	Double     int            `json:"double"`
	Disorder   int            `json:"disorder"`
	Stuck      int            `json:"stuck"`
	Seed       uint64         `json:"seed"`
}

// summary makes the report.
func (r *rig) summary(f facts, found []violation, took time.Duration) report {
	ids := map[string]bool{}
	for _, e := range f.effects {
		ids[e.id] = true
	}
	dead := map[letter]bool{}
	for _, l := range f.letters {
		dead[letter{order: l.order, reason: l.reason}] = true
	}
	s := report{Seconds: int(took.Seconds()), Published: r.ledger.accepted, Deliveries: f.deliveries, Effects: len(ids), Dead: len(dead), Faults: maps.Clone(r.struck), Seed: r.options.seed}
	for _, p := range append(slices.Clone(r.workers), r.server) {
		for way, n := range p.exits {
			if strings.Contains(way, "killed") {
				s.Deaths += n
			}
		}
	}
	for _, v := range found {
		*map[string]*int{"lost": &s.Lost, "double": &s.Double, "disorder": &s.Disorder, "stuck": &s.Stuck}[v.Kind]++
	}
	return s
}

const (
	maxShown   = 20  // violations
	maxHistory = 120 // lines
)

// explain tells a person what was found: the violations, the shortest history of an ID that has one, and how to run
// it again.
func (r *rig) explain(out io.Writer, found []violation) {
	shortest, lines := "", []string(nil)
	for i, v := range found {
		if i == maxShown {
			_, _ = fmt.Fprintf(out, "and %d more\n", len(found)-i)
			break
		}
		_, _ = fmt.Fprintf(out, "%s %s: %s\n", strings.ToUpper(v.Kind), v.ID, v.Text)
		if v.ID == "" {
			continue
		}
		if own := r.history(v.ID); len(own) > 0 && (len(lines) == 0 || len(own) < len(lines)) {
			shortest, lines = v.ID, own
		}
	}
	if len(lines) > 0 {
		_, _ = fmt.Fprintf(out, "history of %s:\n", shortest)
		for _, l := range lines[:min(len(lines), maxHistory)] {
			_, _ = fmt.Fprintln(out, "  "+l)
		}
	}
	_, _ = fmt.Fprintf(out, "everything is in %s; again: %s\n", r.dir, r.options.command())
}

// history is what the journals say of an ID, in the order of time.
func (r *rig) history(id string) (lines []string) {
	type line struct {
		at   int64
		text string
	}
	var all []line
	_ = readJournals(r.dir, func(fields []string) {
		if fields[3] == id {
			at, _ := strconv.ParseInt(fields[0], 10, 64)
			all = append(all, line{at, time.Unix(0, at).Format("15:04:05.000000 ") + strings.Join(fields[1:], " ")})
		}
	})
	slices.SortFunc(all, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	for _, l := range all {
		lines = append(lines, l.text)
	}
	return lines
}

func (s report) line() (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}
