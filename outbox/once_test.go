package outbox_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
)

// announced commits a call at most once, announces it, and lets its holder die.
func (r *rig) announced(id string) {
	r.t.Helper()
	r.call(id, "f", true)
	feed, err := r.st.Feed(r.ctx, time.Minute)
	require.NoError(r.t, err)
	rows, err := feed.Next(r.ctx, 1)
	require.NoError(r.t, err)
	require.NoError(r.t, r.st.Settle(r.ctx, []onefold.Settlement{{Row: rows[0], State: onefold.Tried}}))
	require.NoError(r.t, feed.Close())
}

// fate is what has become of the one row: "settled", or the reason it is parked for.
func (r *rig) fate() string {
	r.t.Helper()
	for {
		r.mu.Lock()
		change := r.change
		r.mu.Unlock()
		if len(r.events("settled")) > 0 {
			return "settled"
		}
		if len(r.events("parked")) > 0 {
			return r.parked()[0].Reason
		}
		select {
		case <-change:
		case <-r.ctx.Done():
			require.FailNow(r.t, "waited in vain", r.all())
		}
	}
}

func TestACallAtMostOnceIsAnnouncedDurablyBeforeItIsMade(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		r.call("a", "f", true)
		var tried atomic.Bool
		r.run(with(outbox.Function{Do: func(ctx context.Context, _ outbox.Call) error {
			for item, err := range r.st.Scan(ctx, onefold.Query{What: onefold.WhatWaiting}) {
				if err != nil {
					return err
				}
				tried.Store(item.Row.Tried)
			}
			return nil
		}}))
		assert.Equal(t, "settled", r.fate())
		assert.True(t, tried.Load())
	})
}

// probeCase is a probe, and what follows if it is asked about a call whose outcome is not known.
type probeCase struct {
	probe func(context.Context, string) (outbox.ProbeResult, error)
	calls int // that follow
	fate  string
}

func probeCases() map[string]probeCase {
	says := func(p outbox.ProbeResult) func(context.Context, string) (outbox.ProbeResult, error) {
		return func(context.Context, string) (outbox.ProbeResult, error) { return p, nil }
	}
	return map[string]probeCase{
		"happened":     {probe: says(outbox.ProbeHappened), fate: "settled"},
		"not happened": {probe: says(outbox.ProbeNotHappened), calls: 1, fate: "settled"},
		"unknown":      {probe: says(outbox.ProbeUnknown), fate: "may have happened (Probe does not know)"},
		"no probe":     {fate: "may have happened (the function has no Probe)"},
		"fails": {
			probe: func(context.Context, string) (outbox.ProbeResult, error) {
				return outbox.ProbeNotHappened, errors.New("no answer today")
			},
			fate: "may have happened (no answer of Probe: function \"f\": no answer today)",
		},
		"panics": {probe: func(context.Context, string) (outbox.ProbeResult, error) { panic("oh") }, fate: "may have happened (no answer of Probe"},
	}
}

func TestAfterACrashTheProbeOfACallAtMostOnceIsAskedAndTheUnknownIsParked(t *testing.T) {
	for name, test := range probeCases() {
		t.Run(name, func(t *testing.T) {
			onEachStore(t, func(t *testing.T, r *rig) {
				r.announced("a")
				var l ledger
				r.run(with(outbox.Function{Probe: test.probe, Do: func(_ context.Context, c outbox.Call) error {
					l.note(c)
					return nil
				}}))
				assert.Contains(t, r.fate(), test.fate)
				assert.Len(t, l.all(), test.calls)
				if test.fate != "settled" {
					assert.Equal(t, onefold.ClassUnknown, r.events("parked")[0].row.Class)
				}
			})
		})
	}
}

func TestAfterAnErrorTheProbeOfACallAtMostOnceIsAskedAndTheUnknownIsParked(t *testing.T) {
	for name, test := range probeCases() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.call("a", "f", true)
			var l ledger
			r.run(with(outbox.Function{Probe: test.probe, Do: func(_ context.Context, c outbox.Call) error {
				if l.note(c) == 1 {
					return errors.New("connection reset")
				}
				return nil
			}}))
			assert.Contains(t, r.fate(), test.fate)
			assert.Len(t, l.all(), 1+test.calls)
			if test.fate != "settled" {
				assert.Contains(t, r.parked()[0].Reason, "connection reset")
			}
		})
	}
}

func TestACallAtMostOnceThatTheRelayStopsIsFoundByTheNextOne(t *testing.T) {
	onEachStore(t, func(t *testing.T, r *rig) {
		started := make(chan struct{}, 1)
		c := with(outbox.Function{Do: func(ctx context.Context, _ outbox.Call) error {
			started <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}})
		c.ShutdownTimeout = 100 * time.Millisecond
		stop := r.run(c)
		r.call("a", "f", true)
		<-started
		require.NoError(t, stop())
		assert.Empty(t, r.events("parked"))

		r.run(with(outbox.Function{
			Do:    func(context.Context, outbox.Call) error { panic("a second call") },
			Probe: func(context.Context, string) (outbox.ProbeResult, error) { return outbox.ProbeHappened, nil },
		}))
		assert.Equal(t, "settled", r.fate())
	})
}

func TestACallAtMostOnceWhoseAnnouncementFailsIsNotMade(t *testing.T) {
	for name, failure := range map[string]error{"full": onefold.ErrFull, "lost": onefold.ErrLost} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.call("a", "f", true)
			r.st = &unannounced{Store: r.st, left: 1, err: failure}
			var l ledger
			r.run(with(outbox.Function{Do: func(_ context.Context, c outbox.Call) error { l.note(c); return nil }}))
			assert.Equal(t, "settled", r.fate())
			assert.Len(t, l.all(), 1)
			assert.ErrorIs(t, r.await("delayed", 1)[0].row.Err, failure)
		})
	}
}

// unannounced refuses to record announcements at first.
type unannounced struct {
	onefold.Store
	left int
	err  error
}

func (s *unannounced) Settle(ctx context.Context, batch []onefold.Settlement) error {
	if batch[0].State == onefold.Tried && s.left > 0 {
		s.left--
		return s.err
	}
	return s.Store.Settle(ctx, batch)
}
