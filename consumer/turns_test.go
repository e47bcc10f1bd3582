package consumer_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// counter adds one to the value that the body names.
func counter(runs *atomic.Int64) onefold.Handler {
	return func(ctx context.Context, m *onefold.Message, fx *onefold.Effects) error {
		runs.Add(1)
		v, _, err := fx.Get(ctx, "counters", string(m.Data))
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(v))
		fx.Put("counters", string(m.Data), []byte(strconv.Itoa(n+1)))
		return nil
	}
}

func TestMessagesThatMoveEachOthersStateCostAFewRunsEach(t *testing.T) {
	const messages, values = 400, 2
	r := newRig(t)
	r.publishMany(messages, func(i int) (id, body string) { return fmt.Sprint(i), fmt.Sprint("item-", i%values) })
	var runs atomic.Int64
	w := r.start(r.config(counter(&runs)))
	r.awaitCount("acked", messages)
	w.end()
	for i := range values {
		v, err := r.st.Read(r.ctx, "counters", fmt.Sprint("item-", i))
		require.NoError(t, err)
		assert.Equal(t, strconv.Itoa(messages/values), string(v.Data))
	}
	t.Logf("%d runs for %d messages", runs.Load(), messages)
	assert.Less(t, runs.Load(), int64(5*messages))
}

// Whoever has the turn at a value is not the only one who may end: here its run overstays its time.
func TestARunThatOverstaysPassesItsTurnOn(t *testing.T) {
	r, g := newRig(t), newGate()
	var slow atomic.Bool
	var runs atomic.Int64
	count := counter(&runs)
	c := r.config(func(ctx context.Context, m *onefold.Message, fx *onefold.Effects) error {
		if err := count(ctx, m, fx); err != nil {
			return err
		}
		if runs.Load() <= 4 {
			return r.write("counters", "a") // all of them conflict
		}
		if slow.CompareAndSwap(false, true) {
			return g.pass(context.Background())
		}
		return nil
	})
	c.HandlerTimeout = 100 * time.Millisecond
	w := r.start(c)
	for i := range 4 {
		r.publish(fmt.Sprint(i), "a")
	}
	r.awaitCount("acked", 4)
	assert.Equal(t, 1, r.count("zombie"))
	close(g.open)
	r.awaitCount("zombie ended", 1)
	w.end()
}

func TestRunsThatWaitForTheirTurnAreBroughtBackAtShutdown(t *testing.T) {
	r, g := newRig(t), newGate()
	var runs atomic.Int64
	count := counter(&runs)
	w := r.start(r.config(func(ctx context.Context, m *onefold.Message, fx *onefold.Effects) error {
		if err := count(ctx, m, fx); err != nil {
			return err
		}
		if fx.Attempt() == 1 && runs.Load() <= 4 {
			return r.write("counters", "a")
		}
		return g.pass(ctx)
	}))
	for i := range 4 {
		r.publish(fmt.Sprint(i), "a")
	}
	r.await1(g.entered)
	w.stop()
	close(g.open)
	require.NoError(t, w.err())
	assert.Equal(t, 4, r.count("acked")+r.count("retried")+r.count("given back"))
	assert.Zero(t, r.count("dead"))
}

// A handler may find out by itself that what it has read has moved.
func TestAHandlerThatReportsAConflictWaitsForItsTurn(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	count := counter(&runs)
	w := r.start(r.config(func(ctx context.Context, m *onefold.Message, fx *onefold.Effects) error {
		if err := count(ctx, m, fx); err != nil {
			return err
		}
		if runs.Load() <= 4 {
			if err := r.write("counters", "a"); err != nil {
				return err
			}
			return fmt.Errorf("own check: %w", onefold.ErrConflict)
		}
		return nil
	}))
	for i := range 4 {
		r.publish(fmt.Sprint(i), "a")
	}
	r.awaitCount("acked", 4)
	w.end()
	assert.Zero(t, r.count("retried"))
}
