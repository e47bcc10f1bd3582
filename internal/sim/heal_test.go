package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/onefold-go/onefold/outbox"
)

// The end of a schedule: no more trouble, and as much time as the longest delays take.
const (
	rounds    = 80
	roundTime = 10 * time.Second
)

// heal ends all trouble, lets everything arrive, and judges what is left.
func (w *world) heal() {
	w.note("all trouble ends")
	w.next = len(w.steps)
	w.crashAt, w.pauseAt, w.lose, w.faults = nowhere, nowhere, 0, [faultCount]bool{}
	for range rounds {
		aside(w.drain)
		w.quiet()
		if w.wrong != "" {
			return
		}
		if w.left() == "" {
			w.judge(w.ledger.complete(&w.server))
			w.judge(w.counted(context.Background(), w.memory))
			return
		}
		w.pass(roundTime)
	}
	w.judge(fmt.Sprintf("stuck: %v after the end of all trouble %s", rounds*roundTime, w.left()))
}

// drain delivers what is due and lets the relay send what it can.
func (w *world) drain() {
	for _, m := range w.server.due(w.now) {
		if m.acked || m.out && m.due > w.now {
			continue // it was answered with an earlier one
		}
		w.deliver(m, 0, script{})
	}
	if _, err := outbox.Resume(context.Background(), w.store, outbox.Choice{}, "all is well", nil); err != nil {
		w.judge("parked rows could not be resumed: " + err.Error())
	}
	for w.fetch(64, nil) > 0 && w.wrong == "" {
		w.finish()
		w.quiet()
	}
	w.finish() // what was published before
}

// left says what has not come to its end.
func (w *world) left() string {
	for _, m := range w.server.messages {
		if !m.acked {
			return fmt.Sprintf("message %d (%v) is not acked", m.seq, m.key)
		}
	}
	for k, a := range w.ledger.keys {
		if len(a.unsettled) > 0 {
			return fmt.Sprintf("%d effects of %v have not left", len(a.unsettled), k)
		}
	}
	return ""
}
