package boltstore

import (
	"fmt"
	"sync/atomic"
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

// DefaultMaxBytes is Options.MaxBytes where it is 0: no limit where addresses have 64 bits, and 512 MiB where they have
// 32, well below what can be mapped.
const DefaultMaxBytes int64 = (1 - int64(^uint(0)>>63)) << 29

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
	// Commit or Settle is not split, except before entries with joins, so a batch that is larger by itself is
	// written as it is: callers bound their batches. 0: DefaultMaxGroupEntries and DefaultMaxGroupBytes.
	MaxGroupEntries int
	MaxGroupBytes   int

	// MmapBytes is how much address space is mapped at Open; memory is used only for what is read. As long
	// as the main file fits, growing never waits for readers. 0: DefaultMmapBytes.
	MmapBytes int

	// MaxBytes, MaxRecords, MaxWaiting, MaxWaitingBytes and MaxWaitingAge are the limits at which the store takes no
	// fresh keys: Begin, and Commit without a claim, get [onefold.ErrFull], which names the limit. Claims that are held
	// can still be committed, so the numbers go a little beyond, and everything else works. Records that count are
	// never removed to make room. The store takes fresh keys again when the numbers have fallen; it looks after each
	// group and once a second. 0: no limit.
	MaxBytes        int64         // in all files, without what is free in them; where addresses have 32 bits 0 is DefaultMaxBytes
	MaxRecords      int           // records, until they are collected after their retention
	MaxWaiting      int           // effects that wait for a relay, delayed ones included, parked ones not
	MaxWaitingBytes int64         // what they take
	MaxWaitingAge   time.Duration // of the oldest one that is neither parked nor delayed

	// Expect is what the store is meant for. Open refuses with [onefold.ErrInvalid] if that cannot fit into MaxBytes or
	// MaxRecords. Zero: nothing is checked.
	Expect Expectation

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
	hashBits     int           // > 0: hashes are cut to so many bits
	beforeWrite  func()        // the writer is about to write a group with entries
	beforeCommit func() error  // an error stands for a failed write of data pages
	afterCommit  func() error  // an error stands for a failed sync of the meta page
	rowBudget    int           // > 0: bytes of fresh rows kept in memory
	maxFile      *atomic.Int64 // > 0: bytes that the main file may have, as on a full disk
	sweepEvery   time.Duration
	probeEvery   time.Duration
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
		{"MaxBytes", c.MaxBytes}, {"MaxRecords", int64(c.MaxRecords)}, {"MaxWaiting", int64(c.MaxWaiting)},
		{"MaxWaitingBytes", c.MaxWaitingBytes}, {"MaxWaitingAge", int64(c.MaxWaitingAge)},
	} {
		if f.value < 0 {
			return Options{}, fmt.Errorf("%w: Options.%s is %d; use 0 for the default", onefold.ErrInvalid, f.name, f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"LockWait", c.LockWait}, {"FailureLag", c.FailureLag}, {"MaxWaitingAge", c.MaxWaitingAge}} {
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
	c.hooks.probeEvery = orDefault(c.hooks.probeEvery, probeEvery)
	c.hooks.sweepEvery = orDefault(c.hooks.sweepEvery, sweepEvery)
	c.hooks.pieceRecords = orDefault(c.hooks.pieceRecords, pieceRecords)
	c.hooks.tierFactor = orDefault(c.hooks.tierFactor, tierFactor)
	c.hooks.eraseLag = orDefault(c.hooks.eraseLag, eraseLag)
	c.hooks.rowBudget = orDefault(c.hooks.rowBudget, freshRowBytes)
	c.MaxBytes = orDefault(c.MaxBytes, DefaultMaxBytes)
	return c, c.Expect.check(c.limits())
}

func orDefault[T int | int64 | time.Duration](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}
