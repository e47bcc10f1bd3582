package main

import (
	"flag"
	"io"
	"log"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheFlagsGiveTheSizesOfARun(t *testing.T) {
	tests := []struct {
		args             string
		records, segment int
	}{
		{"-dir d store", 20_000_000, 500_000},
		{"-dir d -hundred store", 20_000_000, 500_000},
		{"-dir d -records 4000000 store", 4_000_000, 500_000},
		{"-dir d -short store", 200_000, 10_000},
		{"-dir d -short -records 80000 store", 80_000, 10_000},
	}
	for _, tt := range tests {
		set, chosen, err := parse(strings.Fields(tt.args), io.Discard)
		require.NoError(t, err, tt.args)
		assert.Equal(t, "d", set.dir, tt.args)
		assert.Equal(t, tt.records, set.records, tt.args)
		assert.Equal(t, tt.segment, set.segment, tt.args)
		require.Len(t, chosen, 1, tt.args)
		assert.Equal(t, "store", chosen[0].name)
	}
}

func TestBadArgumentsAreRefusedByName(t *testing.T) {
	for args, want := range map[string]string{
		"":                                  "no experiment is named",
		"stor":                              `"stor"`,
		"store -short":                      "flags go before experiments",
		"-records 3999999 store":            "-records is 3999999; use at least 4000000",
		"-records -1 store":                 "-records is -1",
		"-short -hundred store":             "-hundred",
		"-hundred -records 100000000 store": "-hundred",
	} {
		_, _, err := parse(strings.Fields(args), io.Discard)
		assert.ErrorContains(t, err, want, args)
	}
	_, _, err := parse([]string{"-unknown"}, io.Discard)
	assert.ErrorIs(t, err, flag.ErrHelp)
}

func TestARunThatDoesNotFitOnTheDiskIsRefusedBeforeItBegins(t *testing.T) {
	dir := t.TempDir()
	e := experiment{bytes: func(settings) uint64 { return math.MaxUint64 }}
	_, err := measure(t.Context(), e, settings{dir: dir}, log.New(io.Discard, "", 0))
	assert.ErrorIs(t, err, errNoRoom)
	assert.ErrorContains(t, err, dir)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestTheRoomOfARunGrowsWithItsRecords(t *testing.T) {
	full := settings{records: fullRecords, segment: fullSegment}
	hundred := full
	hundred.hundred = true
	assert.Greater(t, storeBytes(full), uint64(fullRecords*130))
	assert.Greater(t, storeBytes(hundred), uint64(hundredRecords*130))
}
