package main

import (
	"fmt"
	"io"
	"strings"
)

// bar is what a measured value has to reach. The zero bar judges nothing.
type bar struct {
	limit float64
	sense sense
	unit  string
}

// sense says on which side of its limit a bar is passed.
type sense uint8

const (
	reported sense = iota
	least
	most
)

func atLeast(limit float64) bar             { return bar{limit, least, ""} }
func atMost(limit float64, unit string) bar { return bar{limit, most, unit} }

// passed reports whether value reaches the bar. What is no number reaches none.
func (b bar) passed(value float64) bool {
	switch b.sense {
	case least:
		return value >= b.limit
	case most:
		return value <= b.limit
	}
	return true
}

// String is the bar as the table shows it.
func (b bar) String() string {
	switch b.sense {
	case least:
		return fmt.Sprintf(">= %g%s", b.limit, b.unit)
	case most:
		return fmt.Sprintf("<= %g%s", b.limit, b.unit)
	}
	return "reported"
}

// row is one line of the table.
type row struct {
	what, bar, measured string
	ok                  string // "yes", "NO", or "-" where there is no bar
}

const missedBar = "NO"

// judge makes the row of a value that has a bar. details say what the value was made from.
func judge(what string, b bar, value float64, details string) row {
	ok := "yes"
	switch {
	case b.sense == reported:
		ok = "-"
	case !b.passed(value):
		ok = missedBar
	}
	return row{what, b.String(), fmt.Sprintf("**%s**%s (%s)", digits(value), b.unit, details), ok}
}

// tell makes a row without a bar.
func tell(what, measured string) row { return row{what, bar{}.String(), measured, "-"} }

// digits shows three significant digits, and whole numbers from 100 on.
func digits(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// report is the outcome of one experiment.
type report struct {
	name, method, machine, command string
	rows                           []row
}

func (r *report) missed() bool {
	for _, row := range r.rows {
		if row.ok == missedBar {
			return true
		}
	}
	return false
}

// print writes the report as markdown.
func (r *report) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s\n\n", r.name, r.method)
	b.WriteString("| what | bar | measured | ok |\n| --- | --- | --- | --- |\n")
	for _, row := range r.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", cell(row.what), cell(row.bar), cell(row.measured), cell(row.ok))
	}
	fmt.Fprintf(&b, "\nMachine: %s.\nCommand: `%s`\n", r.machine, r.command)
	_, err := io.WriteString(out, b.String())
	return err
}

// cell makes text fit into one cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", "\\|"), "\n", " ")
}
