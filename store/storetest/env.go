package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// patience is how long a case may take before a blocked call of it fails. Passing cases never wait for it.
const patience = 30 * time.Second

// The durations that cases use unless they are about time.
const (
	lease  = 30 * time.Second
	retain = time.Hour
)

// env is what a case works with: a fresh store, its clock, and short forms of common calls.
type env struct {
	testing.TB
	ctx       context.Context
	harness   Harness
	clock     *Clock
	in        Instance
	store     onefold.Store // of in, or what was opened instead of it since
	sentinels int
}

// newEnv opens a fresh store with a clock of its own.
func newEnv(t testing.TB, h Harness, patience time.Duration) *env {
	t.Helper()
	e := &env{TB: t, harness: h, clock: NewClock()}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	e.ctx = ctx
	e.use(h.Open(t, e.clock.Clock()))
	return e
}

// limited replaces the store by an empty one with a limit on records.
func (e *env) limited(maxRecords int) {
	e.Helper()
	e.use(e.harness.Limited(e, e.clock.Clock(), maxRecords))
}

// use takes in as the instance that the case works with.
func (e *env) use(in Instance) {
	e.Helper()
	require.NotNil(e, in.Store, "the harness opened no store")
	e.in, e.store = in, in.Store
	e.closeAtEnd(in.Store)
}

func (e *env) closeAtEnd(s onefold.Store) {
	e.Cleanup(func() {
		// The context of the case has ended when this runs, and a store that was cut off may complain.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = s.Close(ctx)
	})
}

// reopen opens the data again.
func (e *env) reopen(clean bool) {
	e.Helper()
	s := e.in.Reopen(e, clean)
	require.NotNil(e, s, "Reopen returned no store")
	e.store = s
	e.closeAtEnd(s)
}

// reopenLater closes the store, lets d pass outside and opens the data again in a new process.
func (e *env) reopenLater(d time.Duration) {
	e.Helper()
	require.NoError(e, e.store.Close(e.ctx))
	e.clock.Advance(d)
	e.clock.NewProcess()
	e.reopen(true)
}

// hold makes commits stop between acceptance and write until release is called, at the end of the case at
// the latest.
func (e *env) hold() (accepted <-chan struct{}, release func()) {
	e.Helper()
	accepted, open := e.in.HoldCommits(e)
	var once sync.Once
	release = func() { once.Do(open) }
	e.Cleanup(release)
	return accepted, release
}

// await waits for something that must happen.
func (e *env) await(happened <-chan struct{}, what string) {
	e.Helper()
	select {
	case <-happened:
	case <-e.ctx.Done():
		require.FailNow(e, "it never happened", what)
	}
}

// another is a second handle on the data of the store.
func (e *env) another() onefold.Store {
	e.Helper()
	s, err := e.in.Another(e)
	require.NoError(e, err)
	require.NotNil(e, s, "Another returned no store")
	e.closeAtEnd(s)
	return s
}
