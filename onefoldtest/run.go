package onefoldtest

import (
	"context"
	"slices"

	"github.com/onefold-go/onefold"
)

// run is one run of the handler.
type run struct {
	number   int // in its world, from 1
	key      onefold.Key
	sequence uint64
	finished bool          // it has returned, and neither panicked nor exited its goroutine
	entry    onefold.Entry // what it has read and asked for, as far as it came
	err      error
	calls    map[*Probe][]string // the idempotency keys passed to each probe; "" if none
}

// complete reports whether the run could have been committed.
func (r *run) complete() bool { return r.finished && r.err == nil }

// handle runs the service's handler and keeps what it asked for.
func (w *world) handle(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
	r := w.begin(fx.Key(), msg)
	defer w.cutShort(r, fx) // a handler that panics or exits its goroutine does not come further
	err := w.kit.cfg.Handler(ctx, msg, fx)
	w.kit.leave(r)
	w.meanwhile()
	w.finish(r, fx, err)
	return err
}

func (w *world) begin(key onefold.Key, msg *onefold.Message) *run {
	w.mu.Lock()
	r := &run{number: len(w.runs) + 1, key: key, sequence: msg.Sequence, calls: map[*Probe][]string{}}
	w.runs = append(w.runs, r)
	w.mu.Unlock()
	w.kit.mu.Lock()
	w.kit.running = append(w.kit.running, r)
	w.kit.mu.Unlock()
	return r
}

// leave says that calls of probes are not r's any more.
func (k *Kit) leave(r *run) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running = slices.DeleteFunc(k.running, func(o *run) bool { return o == r })
}

// cutShort ends a run that may not have got to its finish: what it had read until then decides what it is compared with.
func (w *world) cutShort(r *run, fx *onefold.Effects) {
	w.kit.leave(r)
	entry, _ := fx.Seal()
	w.mu.Lock()
	defer w.mu.Unlock()
	r.entry = entry
}

// meanwhile does what has to happen while a handler runs: its code has returned, but nobody knows yet.
func (w *world) meanwhile() {
	w.mu.Lock()
	during := w.during
	w.during = nil
	w.mu.Unlock()
	if during != nil {
		during()
	}
}

// finish seals what a run asked for, which the consumer finds as it is, and compares it with earlier runs.
func (w *world) finish(r *run, fx *onefold.Effects, err error) {
	entry, buffering := fx.Seal()
	if err == nil {
		err = buffering
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.finished, r.entry, r.err = true, entry, err
	for _, write := range entry.Writes {
		w.tables[write.Table] = true
	}
	for _, other := range w.runs {
		if other != r && other.key == r.key && other.complete() && r.complete() && sameState(other, r) {
			w.compare(other, r)
			return
		}
	}
}

// sameState reports whether two runs have read the same state, in whatever order. One that did not complete may not have
// come to all of what the other has read.
func sameState(first, again *run) bool {
	a, b := first.entry.Reads, again.entry.Reads
	if first.complete() && again.complete() {
		return len(a) == len(b) && within(a, b) // nothing is in Reads twice
	}
	return within(a, b) || within(b, a)
}

// within reports whether all of part is in whole.
func within[T comparable](part, whole []T) bool {
	if len(part) > len(whole) {
		return false
	}
	set := make(map[T]bool, len(whole))
	for _, item := range whole {
		set[item] = true
	}
	return !slices.ContainsFunc(part, func(item T) bool { return !set[item] })
}

// compare reports what one run asked for and the other did not. first has finished before again.
func (w *world) compare(first, again *run) {
	difference := diff(linesOf(&first.entry), linesOf(&again.entry))
	if difference == "" {
		return
	}
	w.kit.report("rerun "+first.key.String(), "run %d of %v asked for something else than run %d:\n%s"+
		"A rerun must ask for the same: take IDs, times and random values from the message, and read state with fx.Get.",
		again.number, again.key, first.number, difference)
}
