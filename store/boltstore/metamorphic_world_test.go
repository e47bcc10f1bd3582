package boltstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/memstore"
	"github.com/onefold-go/onefold/store/storetest"
)

// world is two stores that are led through the same history, under one clock, and what the history has
// brought about so far. Package memstore says what is right, except where the contract leaves a choice.
type world struct {
	root    string
	dir     string // of the store
	options boltstore.Options
	hooks   boltstore.Hooks
	clock   *storetest.Clock
	ahead   atomic.Int64 // monotonic time that the store under test is ahead of the reference; see crashed
	written time.Duration
	gate    gate

	sweeps bool // the store under test sweeps by itself, all the time

	failNextWrite, failNextSync atomic.Bool

	data *memstore.Data
	mem  *memstore.Store
	bolt *boltstore.Store
	open int // number of this Open

	err   error
	story []string

	keys     []onefold.Key
	claims   []*held
	attempt  uint64
	tokens   map[onefold.Key]uint64 // highest of the store under test
	commits  []*bothCommits
	versions map[cell][]bothVersions
	used     map[cell]map[uint64]string // versions seen, with their data
	effects  int
	relay    *bothFeeds
	rows     []*bothRows
	touched  map[string]bool // payloads of rows handed out since their last settlement

	released map[onefold.Key]bool // keys whose last failures may not be written yet
	unsure   map[onefold.Key]bool // keys of which a crash may have forgotten failures
	guessed  map[string]bool      // rows of which a crash may just have forgotten attempts
	fewer    map[string]int       // and how many it has
	suspect  map[string]bool      // rows that were there at an Open after a crash: their attempts are durable when they are handed out
	jumped   bool                 // the wall clock has been moved

	appointments []time.Time
	latest       time.Time // by wall clock, before it was moved
}

type cell struct{ table, key string }

type bothVersions struct{ mem, bolt uint64 }

func newWorld(root string, seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 3))
	w := &world{
		root: root, clock: storetest.NewClock(), tokens: map[onefold.Key]uint64{},
		versions: map[cell][]bothVersions{}, used: map[cell]map[uint64]string{}, touched: map[string]bool{},
		released: map[onefold.Key]bool{}, unsure: map[onefold.Key]bool{}, guessed: map[string]bool{},
		fewer: map[string]int{}, suspect: map[string]bool{},
	}
	clock := onefold.Clock{Wall: w.clock.Wall, Mono: func() time.Duration { return w.clock.Mono() + time.Duration(w.ahead.Load()) }}
	w.options = boltstore.Options{
		Clock: clock, MaxEntry: 32 << 10, FailureLag: time.Hour, // a failure is written with the next group, or at the end
		MmapBytes: []int{32 << 10, 256 << 10, 4 << 20}[r.IntN(3)],
	}
	w.hooks = boltstore.Hooks{
		HashBits: []int{0, 1, 4, 8}[r.IntN(4)], RowBudget: []int{0, 1, 300}[r.IntN(3)], SweepEvery: time.Hour,
		BeforeWrite: w.gate.pass,
		BeforeCommit: func() error {
			if w.failNextWrite.Swap(false) {
				return errHook
			}
			return nil
		},
		AfterCommit: func() error {
			if w.failNextSync.Swap(false) {
				return errHook
			}
			return nil
		},
	}
	if r.IntN(3) > 0 {
		// Segments are sealed, merged and ended in the background all the time.
		w.options.SegmentRecords = []int{50, 100, 300}[r.IntN(3)]
		w.hooks.PieceRecords, w.hooks.TierFactor = []int{7, 20}[r.IntN(2)], []int{2, 3}[r.IntN(2)]
		w.hooks.SweepEvery, w.hooks.EraseLag, w.sweeps = 5*time.Millisecond, time.Nanosecond, true
	}
	w.data = memstore.NewData(w.clock.Clock())
	w.dir = w.freshDir()
	w.openBoth()
	w.pin()
	return w
}

func (w *world) freshDir() string {
	dir, err := os.MkdirTemp(w.root, "store")
	w.must(err)
	return dir
}

// pin stores a record with a retention so long that histories of keys never end by age, for which the two
// stores have other rules.
func (w *world) pin() {
	k := onefold.Key{Scope: "pin", ID: "pin"}
	w.keys = append(w.keys, k)
	e := onefold.Entry{Key: k, Outcome: onefold.Succeeded, Retain: 1e6 * time.Hour}
	w.commitBoth([]*bothCommits{{mem: e, bolt: e}})
}

func (w *world) openBoth() {
	if w.err != nil {
		return
	}
	var err error
	if w.mem, err = memstore.Open(w.data, &memstore.Options{Clock: w.clock.Clock(), MaxEntry: w.options.MaxEntry}); err != nil {
		w.disagree("the reference does not open: %v", err)
		return
	}
	w.bolt, err = boltstore.Open(w.dir, boltstore.WithHooks(w.options, w.hooks))
	if err != nil {
		w.bolt = nil
		w.disagree("open: %v", err)
		return
	}
	w.open++
	w.relay = nil
	kept := w.rows[:0]
	for _, row := range w.rows {
		if !row.parked { // the handle of a parked row is good for one Open in one store and for more in the other
			kept = append(kept, row)
		}
	}
	w.rows = kept
}

// end gives everything back, whatever state it is in.
func (w *world) end() {
	w.data.Crash()
	if w.bolt != nil {
		_ = w.bolt.Crash()
	}
	_ = os.RemoveAll(w.dir)
}

// note begins a line of the story; tell adds to it.
func (w *world) note(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

func (w *world) tell(format string, args ...any) {
	if len(w.story) == 0 {
		w.note("")
	}
	w.story[len(w.story)-1] += " " + fmt.Sprintf(format, args...)
}

// disagree ends the history. The first one counts.
func (w *world) disagree(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
		w.tell("<- %v", w.err)
	}
}

// same compares two answers in a form that both stores share.
func (w *world) same(what string, mem, bolt any) bool {
	m, b := fmt.Sprint(mem), fmt.Sprint(bolt)
	if m != b {
		w.disagree("%s: memstore says\n  %s\nand boltstore says\n  %s", what, m, b)
	}
	return m == b
}

func (w *world) must(err error) {
	if err != nil {
		w.disagree("%v", err)
	}
}

// advance lets time pass. Leases that are over are found by a sweep, which each store does in its own time;
// here both do it before the reference would by itself.
func (w *world) advance(r *rand.Rand) {
	d := []time.Duration{time.Second, 10 * time.Second, 29 * time.Second, 31 * time.Second, 2 * time.Minute, 20 * time.Minute, 3 * time.Hour}[r.IntN(7)]
	w.tell("%v", d)
	w.clock.Advance(d)
	w.written += d
	if w.sweeps || d >= 30*time.Second || r.IntN(3) == 0 {
		w.sweep(nil)
	}
}

// stepWall moves the wall clock. It is not set back behind an appointment that was due already: whether such
// a row is due no more is not said.
func (w *world) stepWall(r *rand.Rand) {
	d := time.Duration(r.IntN(7200)-3600) * time.Second
	now := w.clock.Wall()
	if now.After(w.latest) {
		w.latest = now
	}
	for _, at := range w.appointments {
		if at.After(now.Add(d)) && !at.After(w.latest) {
			d = d.Abs()
		}
	}
	w.tell("%v", d)
	w.clock.StepWall(d)
	w.jumped = true
}

// appointment is a wall clock time some seconds from now.
func (w *world) appointment(seconds int) time.Time {
	at := w.clock.Wall().Add(time.Duration(seconds) * time.Second)
	w.appointments = append(w.appointments, at)
	return at
}

func (w *world) sweep(*rand.Rand) {
	_, err := w.mem.Stats(context.Background()) // sweeps
	w.must(err)
	w.bolt.Sweep()
}

// reopen closes both stores in order. Nothing is forgotten.
func (w *world) reopen(r *rand.Rand) {
	w.must(w.mem.Close(context.Background()))
	w.must(w.bolt.Close(context.Background()))
	clear(w.released)
	clear(w.touched)
	w.written = 0
	if r.IntN(2) == 0 {
		w.clock.NewProcess()
		w.ahead.Store(0)
		w.tell("as a new process")
	}
	w.openBoth()
	w.reopened(true)
}

// crash cuts both stores off.
func (w *world) crash(*rand.Rand) {
	w.crashWith(func() { w.must(w.bolt.Crash()) })
}

// crashCopy goes on with a copy of the files, made while the store was open and wrote nothing.
func (w *world) crashCopy(*rand.Rand) {
	to := w.freshDir()
	w.crashWith(func() {
		// The writer stands still before it writes a group, with nothing in it, that the reference knows nothing of.
		reached, release := w.gate.hold()
		answered := make(chan error, 1)
		go func() { answered <- w.bolt.Commit(context.Background(), []*onefold.Commit{{}}) }()
		<-reached
		w.must(copyFiles(w.dir, to))
		release()
		w.must(<-answered)
		w.must(w.bolt.Crash())
		w.must(os.RemoveAll(w.dir))
		w.dir = to
	})
}

// crashWith ends both stores, the one under test by cut, and opens them again. What a crash may forget is
// noted: failures and attempts that were not written yet, and time. The reference forgets none of it; its
// clock is kept in step by letting the other one be ahead.
func (w *world) crashWith(cut func()) {
	w.must(w.mem.Settle(context.Background(), nil)) // the reference notes the time
	before := w.bolt.StoreClock()
	cut()
	w.data.Crash()
	w.openBoth()
	if w.err != nil {
		return
	}
	back := before - w.bolt.StoreClock()
	if back < 0 || back > w.written {
		w.disagree("the crash turned the store clock back by %v, the last write was %v before", back, w.written)
	}
	w.ahead.Add(int64(back))
	w.tell("turned back by %v", back)
	for k := range w.released {
		w.unsure[k] = true
	}
	clear(w.released)
	for payload, unwritten := range w.touched {
		w.guessed[payload] = w.guessed[payload] || unwritten
	}
	clear(w.touched)
	w.reopened(false)
}

// reopened looks at all of it after an Open.
func (w *world) reopened(clean bool) {
	if w.err != nil {
		return
	}
	w.same("Info.Clean", clean, w.bolt.Info().Clean)
	w.same("Info.Clean of the reference", clean, w.mem.Info().Clean)
	w.audit(nil)
	clear(w.suspect)
	for _, what := range []onefold.What{onefold.WhatWaiting, onefold.WhatParked} {
		items, err := scanAll(w.mem, onefold.Query{What: what}, 0)
		w.must(err)
		for _, item := range items {
			w.suspect[string(item.Row.Effect.Payload)] = !clean
		}
	}
}

// copyFiles copies a directory with everything below it.
func copyFiles(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil // unlinked meanwhile
		}
		if err != nil {
			return err
		}
		return os.WriteFile(target, b, 0o600)
	})
}
