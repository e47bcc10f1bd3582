package boltstore

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// cleanup stands between the groups of a writer that collects, where it asks for claims and commits of its own.
type cleanup struct {
	t       *testing.T
	store   *Store
	under   atomic.Bool
	groups  int // used by the writer alone
	commits sync.WaitGroup
}

// between is called by the writer after each group. What it has queued goes with the next group, so that it is durable
// when the one after that has ended.
func (c *cleanup) between() error {
	if !c.under.Load() || !c.store.expiredState() {
		return nil
	}
	c.groups++
	g, err := hasBegun(c.store, fmt.Sprint("claim", c.groups), uint64(c.groups)+1_000_000)
	if assert.NoError(c.t, err) {
		assert.Equal(c.t, onefold.Granted, g.Verdict, "a claim does not wait for the writer")
	}
	if c.groups > 2 {
		_, err := c.store.Lookup(context.Background(), ofID(fmt.Sprint("commit", c.groups-2)))
		assert.NoError(c.t, err, "a commit waits for one step at most")
	}
	one := &onefold.Commit{Entry: entryOf(fmt.Sprint("commit", c.groups))}
	c.commits.Go(func() {
		assert.NoError(c.t, c.store.Commit(context.Background(), []*onefold.Commit{one}))
		assert.NoError(c.t, one.Err)
	})
	for c.store.Queued() == 0 {
		runtime.Gosched()
	}
	return nil
}

func TestScenario_O25_ClaimsAndCommitsAreServedBetweenTheStepsOfACleanup(t *testing.T) {
	clock, c := newHandClock(), &cleanup{t: t}
	o := &Options{Clock: clock.clock()}
	o.hooks.afterCommit, o.hooks.sweepEvery = c.between, time.Millisecond
	s := opened(t, t.TempDir(), o)
	c.store = s
	const steps = 20
	var writes []onefold.Write
	for i := range steps * sweepStep {
		writes = append(writes, onefold.Write{Table: "t", Key: fmt.Sprint(i), Value: []byte("v"), Retain: time.Minute})
	}
	require.NoError(t, stored(t, s, onefold.Entry{Writes: writes}))
	c.under.Store(true)
	clock.advance(time.Hour)
	require.Eventually(t, func() bool { return !s.expiredState() }, 30*time.Second, time.Millisecond)
	require.NoError(t, s.Close(context.Background()))
	c.commits.Wait()
	assert.GreaterOrEqual(t, c.groups, steps-1, "as many groups as there are bounded steps")
}
