package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestABarIsPassedAtItsLimitAndBeyond(t *testing.T) {
	tests := []struct {
		bar   bar
		value float64
		want  bool
	}{
		{atLeast(0.7), 0.7, true},
		{atLeast(0.7), 0.69, false},
		{atLeast(0.7), math.NaN(), false},
		{atMost(130, " bytes"), 130, true},
		{atMost(130, " bytes"), 130.1, false},
		{atMost(130, " bytes"), math.NaN(), false},
		{bar{}, 1e9, true},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, tt.bar.passed(tt.value), "%v of %v", tt.value, tt.bar)
	}
}

func TestARowSaysBarValueAndVerdict(t *testing.T) {
	assert.Equal(t, row{"open", "<= 0.5 s", "**0.0123** s (of 5)", "yes"}, judge("open", atMost(0.5, " s"), 0.0123, "of 5"))
	assert.Equal(t, row{"growth", ">= 0.7", "**0.654** (x)", "NO"}, judge("growth", atLeast(0.7), 0.6543, "x"))
	assert.Equal(t, row{"disk", "reported", "**217** bytes (x)", "-"}, judge("disk", bar{unit: " bytes"}, 216.8, "x"))
	assert.Equal(t, row{"memory", "reported", "much", "-"}, tell("memory", "much"))
}

func TestAReportIsOneTableWithMachineAndCommand(t *testing.T) {
	r := report{name: "store", method: "As said.", machine: "linux, 2 cores", command: "go run ./bench store", rows: []row{
		judge("a|b", atMost(1, ""), 1, "two\nlines"), tell("c", "d"),
	}}
	var out strings.Builder
	require.NoError(t, r.print(&out))
	assert.Equal(t, `### store

As said.

| what | bar | measured | ok |
| --- | --- | --- | --- |
| a\|b | <= 1 | **1** (two lines) | yes |
| c | reported | d | - |

Machine: linux, 2 cores.
Command: `+"`go run ./bench store`\n", out.String())
}

func TestOneMissedBarIsAMissedReport(t *testing.T) {
	r := report{rows: []row{judge("a", atMost(1, ""), 1, ""), tell("b", "")}}
	assert.False(t, r.missed())
	r.rows = append(r.rows, judge("c", atLeast(1), 0, ""))
	assert.True(t, r.missed())
}
