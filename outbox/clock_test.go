package outbox_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
	"github.com/onefold-go/onefold/store/memstore"
	"github.com/onefold-go/onefold/store/storetest"
)

// jumpy is a store under which the wall clock jumps when it refuses to record something.
type jumpy struct {
	onefold.Store
	err     error // told a few times; nil: the clock jumps beside a success
	refused atomic.Int64
	jump    func()
}

func (s *jumpy) Settle(ctx context.Context, batch []onefold.Settlement) error {
	switch n := s.refused.Add(1); {
	case s.err != nil && n <= 3:
		if n == 1 {
			s.jump()
		}
		return s.err
	case s.err == nil && n == 1:
		defer s.jump()
	}
	return s.Store.Settle(ctx, batch)
}

func TestAWallClockThatJumpsKeepsNoDelayedRowAwayForLongerThanItsDelay(t *testing.T) {
	for name, jump := range map[string]time.Duration{"two days ahead": 48 * time.Hour, "two days back": -48 * time.Hour} {
		for after, err := range map[string]error{
			"when it is recorded": nil, "while the store is full": onefold.ErrFull, "while the store is away": onefold.ErrUnavailable,
		} {
			t.Run(name+" "+after, func(t *testing.T) {
				r, clock := newRig(t), storetest.NewClock()
				st, openErr := memstore.Open(memstore.NewData(clock.Clock()), &memstore.Options{Clock: clock.Clock()})
				require.NoError(t, openErr)
				t.Cleanup(func() { _ = st.Close(context.Background()) })
				r.st = &jumpy{Store: st, err: err, jump: func() { clock.StepWall(jump) }}
				const delay = time.Minute
				r.emit("a", onefold.Effect{Target: "later.a"})
				r.run(outbox.Config{Clock: clock.Clock(), RetryMin: delay, RetryMax: delay})
				r.await("delayed", 1)
				r.stream(jetstream.StreamConfig{Name: "LATER", Subjects: []string{"later.>"}})
				clock.Advance(delay)
				r.emit("b", onefold.Effect{Target: "out.a"}) // something for the relay to look up at
				r.await("settled", 2)
				assert.Len(t, r.stored("LATER"), 1)
				assert.Len(t, r.stored("OUT"), 1)
			})
		}
	}
}
