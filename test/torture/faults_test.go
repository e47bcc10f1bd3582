package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPlanIsAPureFunctionOfItsSeedAndHasEveryFault(t *testing.T) {
	o, err := parse([]string{"-for", "15m", "-seed", "7"}, io.Discard)
	require.NoError(t, err)
	plan := planned(o)
	assert.Equal(t, plan, planned(o))
	seen := map[string]int{}
	for i, s := range plan {
		seen[s.Kind]++
		assert.Less(t, s.At, o.length)
		if i > 0 {
			assert.GreaterOrEqual(t, s.At, plan[i-1].At)
		}
	}
	for _, k := range kinds {
		if k.aim != aimAlways {
			assert.Positive(t, seen[k.name], k.name)
		}
	}
	assert.InDelta(t, float64(o.length/o.every), float64(len(plan)), float64(len(plan))/4, "the mean distance")
	o.seed++
	assert.NotEqual(t, plan, planned(o))
	o.faults = []string{"copies", "kill"}
	for _, s := range planned(o) {
		assert.Equal(t, "kill", s.Kind)
	}
	o.faults = nil
	assert.Empty(t, planned(o))
}

func TestBadSettingsAreRefusedByName(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{[]string{"-for", "10ms"}, []string{"-for is 10ms"}},
		{[]string{"-store", "redis"}, []string{`-store is "redis"`}},
		{[]string{"-faults", "kill,fire"}, []string{`-faults has "fire"`, "server-wipe"}},
		{[]string{"-workers", "0", "-rate", "0", "-every", "1ms"}, []string{"-workers is 0", "-rate is 0", "-every is 1ms"}},
		{[]string{"fast"}, []string{`unexpected argument "fast"`}},
	} {
		_, err := parse(c.args, io.Discard)
		for _, want := range c.want {
			assert.ErrorContains(t, err, want)
		}
	}
	o, err := parse([]string{"-faults", "none", "-for", "30s"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, "go run ./test/torture -for 30s -seed 1 -faults none -workers 2 -rate 250 -every 1.5s", o.command())
}
