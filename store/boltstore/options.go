package boltstore

import (
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
)

// The defaults of [Options].
const (
	DefaultLockWait        = 5 * time.Second
	DefaultMaxEntry        = onefold.DefaultMaxEntry
	DefaultFailureLag      = time.Second
	DefaultMaxGroupEntries = 4096
	DefaultMaxGroupBytes   = 8 << 20
	DefaultSegmentRecords  = 500_000
)

// Options are the settings of [Open]. The zero value is good.
type Options struct {
	// Clock is where the store reads the time. Zero: the machine's clock.
	Clock onefold.Clock

	// LockWait is how long Open waits for another process that has the store open, as happens while a new
	// version of a service replaces the old one. 0: DefaultLockWait. Negative: do not wait.
	LockWait time.Duration

	// MaxEntry is the limit in bytes of one entry, effects included. 0: DefaultMaxEntry.
	MaxEntry int

	// FailureLag is how long the failure given to Release may stay in memory only. A crash before it is
	// written forgets that one attempt was counted. 0: DefaultFailureLag.
	FailureLag time.Duration

	// MaxGroupEntries and MaxGroupBytes bound how many calls are put into one physical write. One call of
	// Commit or Settle is never split, so a batch that is larger by itself is written as it is: callers
	// bound their batches. 0: DefaultMaxGroupEntries and DefaultMaxGroupBytes.
	MaxGroupEntries int
	MaxGroupBytes   int

	// MmapBytes is how much address space is mapped at Open; memory is used only for what is read. As long
	// as the main file fits, growing never waits for readers. 0: DefaultMmapBytes.
	MmapBytes int

	// SegmentRecords is how many records the growing segment holds, for which memory holds an index of about 43
	// bytes a record. When it is full, or older than a sixteenth of the longest retention, it is written to a file
	// of its own in the background, which ends when all its records have expired. 0: DefaultSegmentRecords.
	SegmentRecords int

	// Observer is told of the work in the background: its Upkeep. nil: nobody is.
	Observer *onefold.Observer

	hooks hooks // tests only
}

// hooks are the places where the tests of this package reach in.
type hooks struct {
	hashBits     int          // > 0: hashes are cut to so many bits
	beforeWrite  func()       // the writer is about to write a group with entries
	beforeCommit func() error // an error stands for a failed write of data pages
	afterCommit  func() error // an error stands for a failed sync of the meta page
	rowBudget    int          // > 0: bytes of fresh rows kept in memory
	maxFile      int          // > 0: bytes that the main file may have, as on a full disk
	sweepEvery   time.Duration
	pieceRecords int           // > 0: records of a piece of the journal
	tierFactor   int           // > 0: indexes merged into one
	eraseLag     time.Duration // > 0: how long marks wait before their segment is written anew
}

// checked returns o with defaults filled in, or what is wrong with it.
func (o *Options) checked() (Options, error) {
	if o == nil {
		o = &Options{}
	}
	c := *o
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxEntry", int64(c.MaxEntry)}, {"FailureLag", int64(c.FailureLag)}, {"MaxGroupEntries", int64(c.MaxGroupEntries)},
		{"MaxGroupBytes", int64(c.MaxGroupBytes)}, {"MmapBytes", int64(c.MmapBytes)}, {"SegmentRecords", int64(c.SegmentRecords)},
	} {
		if f.value < 0 {
			return Options{}, fmt.Errorf("%w: Options.%s is %d; use 0 for the default", onefold.ErrInvalid, f.name, f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"LockWait", c.LockWait}, {"FailureLag", c.FailureLag}} {
		if f.value > 0 && f.value < time.Millisecond {
			return Options{}, fmt.Errorf("%w: Options.%s is %v; is the unit right? Use at least 1ms, or 0 for the default",
				onefold.ErrInvalid, f.name, f.value)
		}
	}
	c.Clock = c.Clock.OrSystem()
	c.MaxEntry = orDefault(c.MaxEntry, DefaultMaxEntry)
	c.MaxGroupEntries = orDefault(c.MaxGroupEntries, DefaultMaxGroupEntries)
	c.MaxGroupBytes = orDefault(c.MaxGroupBytes, DefaultMaxGroupBytes)
	c.SegmentRecords = orDefault(c.SegmentRecords, DefaultSegmentRecords)
	c.MmapBytes = orDefault(c.MmapBytes, DefaultMmapBytes)
	c.FailureLag = orDefault(c.FailureLag, DefaultFailureLag)
	c.LockWait = orDefault(c.LockWait, DefaultLockWait)
	c.hooks.sweepEvery = orDefault(c.hooks.sweepEvery, sweepEvery)
	c.hooks.pieceRecords = orDefault(c.hooks.pieceRecords, pieceRecords)
	c.hooks.tierFactor = orDefault(c.hooks.tierFactor, tierFactor)
	c.hooks.eraseLag = orDefault(c.hooks.eraseLag, eraseLag)
	c.hooks.rowBudget = orDefault(c.hooks.rowBudget, freshRowBytes)
	return c, nil
}

func orDefault[T int | time.Duration](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}
