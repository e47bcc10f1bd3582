package boltstore_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/onefold-go/onefold"
)

// bothCommits is one entry for both stores. They differ in the versions read alone.
type bothCommits struct {
	claim     *held // nil: without a claim
	mem, bolt onefold.Entry
}

func (w *world) commit(r *rand.Rand) {
	batch := w.batch(r)
	if last := batch[len(batch)-1]; r.IntN(10) == 0 && len(last.mem.Reads) == 0 {
		batch = append(batch, last)
	}
	w.commitBoth(batch)
	w.commits = append(w.commits, batch...)
}

// batch draws entries of different keys, since of two with the same key the contract does not say which one
// waits for which.
func (w *world) batch(r *rand.Rand) []*bothCommits {
	n := 1
	if r.IntN(3) == 0 {
		n += r.IntN(5)
	}
	var batch []*bothCommits
	for range n {
		c := w.oneCommit(r)
		if !slices.ContainsFunc(batch, func(o *bothCommits) bool { return !c.mem.Key.IsZero() && o.mem.Key == c.mem.Key }) {
			batch = append(batch, c)
		}
	}
	return batch
}

// commitMany stores many records that end together, so that there are segments to seal and to end.
func (w *world) commitMany(r *rand.Rand) {
	w.fill(20+r.IntN(60), []time.Duration{time.Minute, time.Hour, 1000 * time.Hour}[r.IntN(3)])
}

func (w *world) oneCommit(r *rand.Rand) *bothCommits {
	c := &bothCommits{}
	switch at := r.IntN(10); {
	case at == 0: // state alone
		w.addState(r, c, true)
		return c
	case at < 7 && len(w.claims) > 0:
		c.claim = w.claim(r)
		c.mem.Key, c.mem.Fingerprint = c.claim.key, c.claim.fingerprint
	default:
		c.mem.Key, c.mem.Fingerprint = w.key(r), fingerprint(r)
	}
	c.mem.Outcome = []onefold.Outcome{onefold.Succeeded, onefold.Succeeded, onefold.Succeeded, onefold.DeadLettered, onefold.ParkedUnknown}[r.IntN(5)]
	c.mem.Retain = []time.Duration{20 * time.Second, time.Minute, time.Hour, 1000 * time.Hour}[r.IntN(4)]
	c.mem.Result = [][]byte{nil, {}, []byte("result"), bytes.Repeat([]byte("r"), 5000)}[r.IntN(4)]
	if r.IntN(2) == 0 {
		for range 1 + r.IntN(3) {
			c.mem.Effects = append(c.mem.Effects, w.effect(r))
		}
	}
	switch r.IntN(60) {
	case 0:
		c.mem.Result = make([]byte, w.options.MaxEntry)
	case 1:
		c.mem.Retain = 0
	}
	w.addState(r, c, false)
	return c
}

// addState finishes an entry with reads and writes.
func (w *world) addState(r *rand.Rand, c *bothCommits, must bool) {
	if must || r.IntN(3) == 0 {
		for range 1 + r.IntN(2) {
			at := someCell(r)
			write := onefold.Write{
				Table: at.table, Key: at.key, Value: fmt.Append(nil, "v", r.IntN(1000)), Delete: r.IntN(4) == 0,
				Retain: []time.Duration{0, time.Minute, time.Hour}[r.IntN(3)],
			}
			c.mem.Writes = append(c.mem.Writes, write)
		}
	}
	c.bolt = c.mem
	if r.IntN(4) > 0 {
		return
	}
	at := someCell(r)
	v := bothVersions{}
	if known := w.versions[at]; r.IntN(4) > 0 {
		v = w.readCell(at)
	} else if len(known) > 0 {
		v = known[r.IntN(len(known))]
	}
	c.mem.Reads = []onefold.Read{{Table: at.table, Key: at.key, Version: v.mem}}
	c.bolt.Reads = []onefold.Read{{Table: at.table, Key: at.key, Version: v.bolt}}
}

// effect draws an effect. Its payload is like that of no other, so that its row is known again.
func (w *world) effect(r *rand.Rand) onefold.Effect {
	w.effects++
	f := onefold.Effect{
		ID: fmt.Sprint("effect ", w.effects), Kind: onefold.KindMessage, Target: "subject",
		Payload: fmt.Append(nil, "payload ", w.effects), OrderKey: []string{"", "", "a", "b"}[r.IntN(4)],
	}
	if r.IntN(3) == 0 {
		f.Header = onefold.Header{"A": {"1", "2"}, "B": {}}
	}
	switch r.IntN(6) {
	case 0:
		f.NotBefore = w.appointment(r.IntN(3600) - 600)
	case 1:
		f.Timer = fmt.Sprint("timer ", r.IntN(3))
		f.ID, f.Cancel = f.Timer, r.IntN(4) == 0
		f.NotBefore = w.appointment(60)
	}
	return f
}

// pairs makes what is passed to the two stores.
func pairs(batch []*bothCommits) (mem, bolt []*onefold.Commit) {
	for _, c := range batch {
		m, b := &onefold.Commit{Entry: c.mem}, &onefold.Commit{Entry: c.bolt}
		if c.claim != nil {
			m.Claim, b.Claim = c.claim.mem, c.claim.bolt
		}
		mem, bolt = append(mem, m), append(bolt, b)
	}
	return mem, bolt
}

func (w *world) commitBoth(batch []*bothCommits) {
	live := make([]bool, len(batch))
	for i, c := range batch {
		_, err := w.mem.Lookup(context.Background(), c.mem.Key)
		live[i] = err == nil
	}
	mem, bolt := pairs(batch)
	errM := w.mem.Commit(context.Background(), mem)
	w.same("Commit", class(errM), class(w.bolt.Commit(context.Background(), bolt)))
	w.compareCommits(batch, mem, bolt, live)
}

func (w *world) compareCommits(batch []*bothCommits, mem, bolt []*onefold.Commit, live []bool) {
	for i := range batch {
		if m, b := mem[i].Existing, bolt[i].Existing; m != nil && b != nil && len(batch) > 1 {
			m.Unsettled, b.Unsettled = 0, 0 // as of before or after the other entries
		}
		w.compareCommit(batch[i], mem[i], bolt[i], live[i])
	}
}

// compareCommit compares what became of one entry. Whether a commit that was stored, and has expired, is
// still known when it is repeated depends on whether it has been collected.
func (w *world) compareCommit(c *bothCommits, m, b *onefold.Commit, live bool) {
	showM, showB := showCommit(m), showCommit(b)
	w.tell("%v claim %v %d reads %d writes %d effects -> %s;", c.mem.Key, c.claim != nil, len(c.mem.Reads), len(c.mem.Writes), len(c.mem.Effects), showM)
	if c.claim != nil && !live && m.Existing != nil && class(b.Err) == "lost" {
		return
	}
	if w.same(fmt.Sprintf("Commit of %v", c.mem.Key), showM, showB) && m.Err == nil && m.Existing == nil {
		w.stored(c)
	}
}

func showCommit(c *onefold.Commit) string {
	if c.Err != nil {
		return class(c.Err)
	}
	if c.Existing != nil {
		return "existing " + showRecord(c.Existing)
	}
	return "stored"
}

// stored notes that an entry has been written.
func (w *world) stored(c *bothCommits) {
	w.wrote()
	delete(w.unsure, c.mem.Key)
}

// repeat commits again what was committed before, under the same claim.
func (w *world) repeat(r *rand.Rand) {
	if n := len(w.commits); n > 0 {
		w.commitBoth([]*bothCommits{w.commits[n-1-r.IntN(min(n, 8))]})
	}
}

// failWrite lets a write of the store under test fail before anything is on the disk. The entries are not
// stored, the claims are still held, and the commit is repeated.
func (w *world) failWrite(r *rand.Rand) {
	batch := w.batch(r)
	_, bolt := pairs(batch)
	w.failNextWrite.Store(true)
	err := w.bolt.Commit(context.Background(), bolt)
	w.must(err)
	failed := !w.failNextWrite.Swap(false)
	w.tell("failed %v;", failed)
	if !slices.ContainsFunc(bolt, func(c *onefold.Commit) bool { return class(c.Err) == "unavailable" }) {
		w.follow(batch, bolt) // none was written, or the write that failed was one in the background
		return
	}
	for i, c := range bolt {
		if !failed || class(c.Err) == "unknown" || c.Err == nil && c.Existing == nil {
			w.disagree("entry %d of a write that failed: %v", i, c.Err)
		}
	}
	w.commitBoth(batch)
}

// follow commits to the reference what the other store has answered already.
func (w *world) follow(batch []*bothCommits, bolt []*onefold.Commit) {
	mem, _ := pairs(batch)
	live := make([]bool, len(batch))
	for i, c := range batch {
		_, err := w.mem.Lookup(context.Background(), c.mem.Key)
		live[i] = err == nil
	}
	w.must(w.mem.Commit(context.Background(), mem))
	w.compareCommits(batch, mem, bolt, live)
}

// failSync lets the sync at the end of a write fail. Nobody knows what is on the disk, which here has all of
// it; the store stops, and is opened again.
func (w *world) failSync(r *rand.Rand) {
	batch := w.batch(r)
	_, bolt := pairs(batch)
	w.failNextSync.Store(true)
	err := w.bolt.Commit(context.Background(), bolt)
	background := !slices.ContainsFunc(bolt, func(c *onefold.Commit) bool { return class(c.Err) == "unknown" })
	if w.failNextSync.Swap(false) {
		w.must(err)
		w.follow(batch, bolt)
		return
	}
	if background { // the write that failed was another one; it may have come first
		if err == nil && !slices.ContainsFunc(bolt, func(c *onefold.Commit) bool { return class(c.Err) == "damaged" }) {
			w.follow(batch, bolt)
		}
		w.crash(nil)
		return
	}
	mem, _ := pairs(batch)
	w.must(w.mem.Commit(context.Background(), mem))
	for i, c := range mem {
		w.tell("%v -> %s and %s;", batch[i].mem.Key, showCommit(c), showCommit(bolt[i]))
		if c.Err == nil && c.Existing == nil && class(bolt[i].Err) != "unknown" {
			w.disagree("entry %d after a failed sync: %v", i, bolt[i].Err)
		}
		if c.Err == nil && c.Existing == nil {
			w.stored(batch[i])
		}
	}
	if _, err := w.bolt.Begin(context.Background(), onefold.Request{Key: w.keys[0], Lease: 1, Holder: onefold.Holder{Process: 9}}); class(err) != "damaged" {
		w.disagree("Begin after a failed sync: %v", err)
	}
	w.crash(nil)
}

// crashUnderWay cuts the stores off while the writer is at a group and more waits for it. What is being written
// is stored, and what waits is not; which of two commits that is depends on what else the store has to write.
func (w *world) crashUnderWay(r *rand.Rand) {
	first, second := w.oneCommit(r), w.oneCommit(r)
	if first.mem.Key == second.mem.Key || second.mem.Key.IsZero() {
		return
	}
	for _, e := range []*onefold.Entry{&second.mem, &second.bolt} {
		e.Reads, e.Writes, e.Effects = nil, nil, nil // it does not matter which of the two comes first
	}
	_, one := pairs([]*bothCommits{first})
	_, two := pairs([]*bothCommits{second})
	answers := make(chan error, 2)
	commit := func(c []*onefold.Commit) {
		err := w.bolt.Commit(context.Background(), c)
		if err != nil {
			c[0].Err = err // it was not let in
		}
		answers <- err
	}
	reached, release := w.gate.hold()
	go commit(one)
	select {
	case <-reached:
	case err := <-answers: // refused, or stored already
		release()
		w.must(err)
		w.follow([]*bothCommits{first}, one)
		return
	}
	go commit(two)
	for len(answers) == 0 && w.bolt.Queued() == 0 {
		runtime.Gosched()
	}
	w.crashWith(func() {
		ended := make(chan error, 1)
		go func() { ended <- w.bolt.Crash() }()
		for tries := 0; tries < 10_000 && w.bolt.Queued() > 0; tries++ { // it may also be let in after the crash has begun
			runtime.Gosched()
		}
		release()
		w.must(<-ended)
		for range 2 {
			if err := <-answers; err != nil && class(err) != "closed" {
				w.disagree("a commit at the crash: %v", err)
			}
		}
		w.landed(first, one)
		w.landed(second, two)
	})
}

// landed lets the reference follow a commit that was under way at a crash. One that was answered with ErrClosed
// was not written here.
func (w *world) landed(c *bothCommits, bolt []*onefold.Commit) {
	if class(bolt[0].Err) == "closed" {
		return
	}
	w.follow([]*bothCommits{c}, bolt)
}
