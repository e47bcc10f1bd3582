package consumer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

func TestAStoreThatRefusesClaimsStopsThePullingAndNothingIsAckedUntilItIsBack(t *testing.T) {
	for name, refusal := range map[string]error{"unavailable": onefold.ErrUnavailable, "full": onefold.ErrFull, "not named by the contract": errors.New("disk on fire")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var down atomic.Bool
			down.Store(true)
			st := &refusing{Store: r.st, down: &down, err: refusal}
			var runs atomic.Int64
			c := r.config(counting(&runs))
			c.AckWait = 400 * time.Millisecond
			w := r.startOn(r.js, st, c)
			for i := range 20 {
				r.publish(string(rune('a'+i)), "x")
			}
			r.awaitCount("state waiting for the store", 1)
			// What is held is given back while it is ours; nothing is left then that would ask the store.
			r.await("everything given back", func(c map[string]int) bool { return c["received"] > 0 && c["given back"] == c["received"] })
			assert.Zero(t, r.count("acked"))
			down.Store(false)
			r.awaitCount("acked", 20)
			r.settled()
			w.end()
			assert.EqualValues(t, 20, runs.Load())
			waiting := r.events("state waiting for the store")[0].state
			assert.ErrorIs(t, waiting.Err, refusal)
			assert.Equal(t, "consumer IN/work", waiting.Part)
		})
	}
}

// refusing refuses all claims but the consumer's own while it is down.
type refusing struct {
	onefold.Store
	down *atomic.Bool
	err  error
}

func (s *refusing) Begin(ctx context.Context, r onefold.Request) (onefold.Grant, error) {
	if r.Key.Scope != ownScope && s.down.Load() {
		return onefold.Grant{}, s.err
	}
	return s.Store.Begin(ctx, r)
}

func TestAStoreThatRefusesCommitsKeepsThemUntilItTakesThem(t *testing.T) {
	for name, refusal := range map[string]error{"unavailable": onefold.ErrUnavailable, "unknown": onefold.ErrUnknown, "full": onefold.ErrFull} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var calls, runs atomic.Int64
			st := &faulty{Store: r.st, commit: func([]*onefold.Commit) error {
				if calls.Add(1) <= 5 {
					return refusal
				}
				return nil
			}}
			w := r.startOn(r.js, st, r.config(counting(&runs)))
			r.publish("one", "x")
			r.awaitCount("acked", 1)
			r.awaitCount("state running", 2)
			w.end()
			assert.EqualValues(t, 1, runs.Load())
			assert.EqualValues(t, 6, calls.Load())
			assert.Equal(t, 1, r.count("state waiting for the store"))
		})
	}
}

func TestAStoreThatIsClosedOrDamagedEndsRun(t *testing.T) {
	for name, fatal := range map[string]error{"closed": onefold.ErrClosed, "damaged": onefold.ErrDamaged} {
		t.Run(name+" at begin", func(t *testing.T) {
			r := newRig(t)
			w := r.startOn(r.js, &faulty{Store: r.st, begin: func(onefold.Request) error { return fatal }}, r.config(nothing))
			r.publish("one", "x")
			require.ErrorIs(t, w.err(), fatal)
			assert.Equal(t, 1, r.count("given back"))
			assert.Zero(t, r.count("acked"))
		})
		t.Run(name+" at commit", func(t *testing.T) {
			r := newRig(t)
			w := r.startOn(r.js, &faulty{Store: r.st, commit: func([]*onefold.Commit) error { return fatal }}, r.config(nothing))
			r.publish("one", "x")
			require.ErrorIs(t, w.err(), fatal)
			assert.Zero(t, r.count("acked"))
		})
	}
}

// nothing is a handler that succeeds.
func nothing(context.Context, *onefold.Message, *onefold.Effects) error { return nil }

func TestACommitThatFindsItsClaimLostAnswersNothing(t *testing.T) {
	r := newRig(t)
	var calls atomic.Int64
	c := r.config(nothing)
	c.AckWait = 500 * time.Millisecond
	w := r.startOn(r.js, &faulty{Store: r.st, commit: func([]*onefold.Commit) error {
		if calls.Add(1) == 1 {
			return onefold.ErrLost
		}
		return nil
	}}, func() consumer.Config { c.Lease = 300 * time.Millisecond; return c }())
	r.publish("one", "x")
	r.awaitCount("lost", 1)
	assert.Zero(t, r.count("acked")+r.count("retried")+r.count("given back"))
	r.awaitCount("acked", 1) // after AckWait, and once the old claim has ended
	w.end()
}

func TestAMessageIsNakedOnlyAfterItsClaimIsGivenUp(t *testing.T) {
	for name, refusal := range map[string]error{"lost": onefold.ErrLost, "unavailable": onefold.ErrUnavailable} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var calls, runs atomic.Int64
			c := r.config(func(context.Context, *onefold.Message, *onefold.Effects) error {
				if runs.Add(1) == 1 {
					return errors.New("no")
				}
				return nil
			})
			c.AckWait, c.Lease = 500*time.Millisecond, 300*time.Millisecond
			w := r.startOn(r.js, &faulty{Store: r.st, release: func(*onefold.Claim) error {
				if calls.Add(1) == 1 {
					return refusal
				}
				return nil
			}}, c)
			r.publish("one", "x")
			r.awaitCount("lost", 1)
			assert.ErrorIs(t, r.events("lost")[0].event.Err, refusal)
			r.awaitCount("acked", 1)
			w.end()
		})
	}
}

func TestARefusedRenewalDoesNotStopARunAsLongAsTheClaimIsNotLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	renewed := make(chan struct{}, 100)
	c := r.config(func(ctx context.Context, _ *onefold.Message, _ *onefold.Effects) error {
		for range 2 {
			select {
			case <-renewed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	c.Lease = time.Second
	w := r.startOn(r.js, &faulty{Store: r.st, renew: func(*onefold.Claim) error {
		renewed <- struct{}{}
		return onefold.ErrUnavailable
	}}, c)
	r.publish("one", "x")
	r.awaitCount("acked", 1)
	w.end()
	assert.Zero(t, r.count("lost"))
}

func TestADeadLetterThatCannotBeWaitedForComesAgainLater(t *testing.T) {
	r := newRig(t)
	var calls atomic.Int64
	w := r.startOn(r.js, &faulty{Store: r.st, wait: func(onefold.Key) error {
		if calls.Add(1) == 1 {
			return onefold.ErrUnavailable
		}
		return nil
	}}, r.config(func(context.Context, *onefold.Message, *onefold.Effects) error {
		return onefold.Permanent(errors.New("no"))
	}))
	relay := r.relay()
	r.publish("one", "x")
	r.await("an answer", func(c map[string]int) bool { return c["acked"]+c["duplicate"] == 1 })
	w.end()
	relay.end()
	assert.Equal(t, 1, r.count("dead"))
	assert.Equal(t, 1, r.count("given back"))
	assert.Positive(t, r.events("given back")[0].event.Delay)
	assert.Equal(t, 1, r.stored("ONEFOLD_DEAD"))
}
