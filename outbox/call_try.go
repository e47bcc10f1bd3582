package outbox

import (
	"context"
	"fmt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
	"github.com/onefold-go/onefold/internal/safecall"
)

// probeRuns is how often a probe that fails is asked about one call.
const probeRuns = 3

// try makes one try with a row: probe what is not known, announce, call, probe again. What follows from it is
// decided by judgeCall.
func (c *calls) try(l *line, row *onefold.Row) callEnd {
	end := callEnd{once: row.Effect.Once}
	if end.once && row.Tried {
		end.reached = askedOnly
		c.probe(l, row, &end)
		if !end.asked || end.probeErr != nil || end.answer != ProbeNotHappened {
			return end
		}
	}
	if end.once && !row.Tried {
		// The call may follow only when this is durable: whoever finds the row after a crash must know of it.
		mark := []onefold.Settlement{{Row: *row, State: onefold.Tried}}
		if err := settleUntilKnown(c.base, c.relay.store, mark, c.relay.status.unsettled); err != nil {
			end.err = fmt.Errorf("announce the call: %w", err)
			return end
		}
	}
	e := &row.Effect
	end.reached, end.asked, end.answer = called, false, ProbeUnknown
	end.err = c.guarded(l, func(ctx context.Context) error {
		return l.function.Do(ctx, Call{
			Name: e.Target, Key: e.ID, Payload: e.Payload, Header: e.Header, Attempt: row.Attempt, Source: row.Key,
		})
	})
	end.stopped = c.base.Err() != nil
	if end.err != nil && end.once && !end.stopped && mayHaveHappened(end.err, true) {
		c.probe(l, row, &end)
	}
	return end
}

// probe asks about the call of row, again if that fails.
func (c *calls) probe(l *line, row *onefold.Row, end *callEnd) {
	if l.function.Probe == nil {
		return
	}
	config := &c.relay.config
	for run := 1; ; run++ {
		end.asked = true
		end.probeErr = c.guarded(l, func(ctx context.Context) (err error) {
			end.answer, err = l.function.Probe(ctx, row.Effect.ID)
			return err
		})
		if end.probeErr == nil || run == probeRuns ||
			!pace.Sleep(c.base, pace.Delay(run, seedOf(row.Effect.ID), config.RetryMin, config.RetryMax)) {
			break
		}
	}
	end.stopped = end.probeErr != nil && c.base.Err() != nil
}

// guarded runs f with the timeout of the function and waits for its end, however it ends.
func (c *calls) guarded(l *line, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(c.base, l.function.Timeout)
	defer cancel()
	var call safecall.Call
	done := make(chan struct{})
	go func() { // of its own, so that runtime.Goexit ends nothing else
		defer close(done)
		_ = call.Do(func() error { return f(ctx) })
	}()
	<-done
	if err := call.Err(); err != nil {
		return fmt.Errorf("function %q: %w", l.name, err)
	}
	return nil
}
