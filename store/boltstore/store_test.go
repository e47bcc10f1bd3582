package boltstore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate holds the writer while it is shut.
type gate struct {
	mu      sync.Mutex
	reached chan struct{} // closed when the writer stands at the gate; nil: the gate is open
	release chan struct{}
}

func (g *gate) pass() {
	g.mu.Lock()
	reached, release := g.reached, g.release
	g.mu.Unlock()
	if reached == nil {
		return
	}
	select {
	case <-reached:
	default:
		close(reached)
	}
	<-release
}

func (g *gate) hold() (<-chan struct{}, func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reached, g.release = make(chan struct{}), make(chan struct{})
	release := g.release
	return g.reached, func() {
		g.mu.Lock()
		g.reached = nil
		g.mu.Unlock()
		close(release)
	}
}

// harness opens stores in directories of their own.
func harness(base boltstore.Options, hooks boltstore.Hooks) storetest.Harness {
	return storetest.Harness{Open: func(t testing.TB, clock onefold.Clock) storetest.Instance {
		g := &gate{}
		hooks := hooks
		hooks.BeforeWrite = g.pass
		var fails atomic.Bool
		hooks.AfterCommit = func() error {
			if fails.Swap(false) {
				return errors.New("the sync has failed")
			}
			return nil
		}
		base := base
		base.Clock = clock
		o, dir := boltstore.WithHooks(base, hooks), t.TempDir()
		var last atomic.Pointer[boltstore.Store]
		open := func(t testing.TB) *boltstore.Store {
			s, err := boltstore.Open(dir, o)
			require.NoError(t, err)
			last.Store(s)
			return s
		}
		return storetest.Instance{
			Store: open(t),
			Reopen: func(t testing.TB, clean bool) onefold.Store {
				if clean {
					require.NoError(t, last.Load().Close(context.Background()))
				} else {
					require.NoError(t, last.Load().Crash())
				}
				return open(t)
			},
			HoldCommits: func(testing.TB) (<-chan struct{}, func()) { return g.hold() },
			FailCommits: func(testing.TB) { fails.Store(true) },
			Another: func(testing.TB) (onefold.Store, error) {
				impatient := *o
				impatient.LockWait = 10 * time.Millisecond
				s, err := boltstore.Open(dir, &impatient)
				if err != nil {
					return nil, err // and no typed nil
				}
				return s, nil
			},
		}
	}}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, harness(boltstore.Options{}, boltstore.Hooks{}))
}

func TestConformanceWhenMostKeysShareAHash(t *testing.T) {
	storetest.Run(t, harness(boltstore.Options{}, boltstore.Hooks{HashBits: 8}))
}

func TestConformanceWhenTheMappedFileIsTiny(t *testing.T) {
	storetest.Run(t, harness(boltstore.Options{MmapBytes: 64 << 10}, boltstore.Hooks{HashBits: 1, RowBudget: 1}))
}

// TestConformanceWhileSegmentsComeAndGo seals nearly every record by itself, merges two indexes at a time, and
// drops pieces of one record.
func TestConformanceWhileSegmentsComeAndGo(t *testing.T) {
	seen := &events{}
	h := harness(boltstore.Options{SegmentRecords: 1, Observer: seen.observer()}, boltstore.Hooks{
		HashBits: 8, PieceRecords: 1, TierFactor: 2, SweepEvery: time.Millisecond, EraseLag: -1,
	})
	whole := h.Open
	h.Open = func(t testing.TB, clock onefold.Clock) storetest.Instance {
		i := whole(t, clock)
		i.FailCommits = nil // the next write may be one of the upkeep
		reopen := i.Reopen
		i.Reopen = func(t testing.TB, clean bool) onefold.Store { return keeping{reopen(t, clean).(*boltstore.Store)} }
		i.Store = keeping{i.Store.(*boltstore.Store)}
		return i
	}
	t.Run("", func(t *testing.T) { storetest.Run(t, h) }) // ends when all its parallel parts have ended
	for _, what := range []string{"seal", "drop", "merge", "expire"} {
		assert.NotEmpty(t, seen.of(what), what)
	}
}

// keeping is a store whose commits return when what has become due in the background is done.
type keeping struct{ *boltstore.Store }

func (k keeping) Commit(ctx context.Context, batch []*onefold.Commit) error {
	defer k.KeepUp()
	return k.Store.Commit(ctx, batch)
}
