package storetest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/memstore"
)

// hooked is spoiled with all hooks of a harness.
func hooked(spoil func(onefold.Store) onefold.Store) Harness {
	return Harness{Open: func(t testing.TB, clock onefold.Clock) Instance {
		data := memstore.NewData(clock)
		h := &hooks{data: data}
		options := &memstore.Options{Clock: clock, BeforeWrite: h.beforeWrite}
		open := func() (onefold.Store, error) {
			s, err := memstore.Open(data, options)
			if err != nil {
				return spoil(nil), err
			}
			return spoil(s), nil
		}
		last, err := open()
		require.NoError(t, err)
		return Instance{
			Store: last,
			Reopen: func(t testing.TB, clean bool) onefold.Store {
				if clean {
					require.NoError(t, last.Close(context.Background()))
				}
				data.Crash()
				last, err = open()
				require.NoError(t, err)
				return last
			},
			HoldCommits: h.hold,
			FailCommits: func(testing.TB) { h.set(func() { h.set(nil); data.Crash() }) },
			Another:     func(testing.TB) (onefold.Store, error) { s, err := open(); return closing{s, err != nil}, err },
		}
	}}
}

// hooks are called before a write.
type hooks struct {
	data *memstore.Data
	mu   sync.Mutex
	call func()
}

func (h *hooks) set(call func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.call = call
}

func (h *hooks) beforeWrite() {
	h.mu.Lock()
	call := h.call
	h.mu.Unlock()
	if call != nil {
		call()
	}
}

func (h *hooks) hold(testing.TB) (<-chan struct{}, func()) {
	accepted, open := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.set(func() {
		once.Do(func() { close(accepted) })
		<-open
	})
	return accepted, func() {
		h.set(nil)
		close(open)
	}
}

// closing is a store that may not have been opened.
type closing struct {
	onefold.Store
	none bool
}

func (s closing) Close(ctx context.Context) error {
	if s.none {
		return nil
	}
	return s.Store.Close(ctx)
}

// rewired is a store some of whose methods were replaced.
type rewired struct {
	onefold.Store
	begin   func(s onefold.Store, r onefold.Request) (onefold.Grant, error)
	renew   func(s onefold.Store, c *onefold.Claim) error
	release func(s onefold.Store, c *onefold.Claim, f onefold.Failure) error
	commit  func(ctx context.Context, s onefold.Store, batch []*onefold.Commit) error
	erase   func(s onefold.Store, k onefold.Key) error
	scan    func(onefold.Item) onefold.Item
	settle  func(s onefold.Store, all []onefold.Settlement) error
	stats   func(st *onefold.Stats)
	info    func(i *onefold.Info)
}

func (s rewired) Info() onefold.Info {
	i := s.Store.Info()
	if s.info != nil {
		s.info(&i)
	}
	return i
}

func (s rewired) Begin(ctx context.Context, r onefold.Request) (onefold.Grant, error) {
	if s.begin != nil {
		return s.begin(s.Store, r)
	}
	return s.Store.Begin(ctx, r)
}

func (s rewired) Renew(ctx context.Context, c *onefold.Claim, lease time.Duration) error {
	if s.renew != nil {
		return s.renew(s.Store, c)
	}
	return s.Store.Renew(ctx, c, lease)
}

func (s rewired) Release(ctx context.Context, c *onefold.Claim, f onefold.Failure) error {
	if s.release != nil {
		return s.release(s.Store, c, f)
	}
	return s.Store.Release(ctx, c, f)
}

func (s rewired) Commit(ctx context.Context, batch []*onefold.Commit) error {
	if s.commit != nil {
		return s.commit(ctx, s.Store, batch)
	}
	return s.Store.Commit(ctx, batch)
}

func (s rewired) Erase(ctx context.Context, k onefold.Key) error {
	if s.erase != nil {
		return s.erase(s.Store, k)
	}
	return s.Store.Erase(ctx, k)
}

func (s rewired) Scan(ctx context.Context, q onefold.Query) iter.Seq2[onefold.Item, error] {
	return func(yield func(onefold.Item, error) bool) {
		for item, err := range s.Store.Scan(ctx, q) {
			if s.scan != nil {
				item = s.scan(item)
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

func (s rewired) Settle(ctx context.Context, all []onefold.Settlement) error {
	if s.settle != nil {
		return s.settle(s.Store, all)
	}
	return s.Store.Settle(ctx, all)
}

func (s rewired) Stats(ctx context.Context) (onefold.Stats, error) {
	st, err := s.Store.Stats(ctx)
	if s.stats != nil {
		s.stats(&st)
	}
	return st, err
}

// broken are stores that break one rule each, and the cases that must find it.
var broken = map[string]struct {
	store rewired
	fails []string
}{
	"the fingerprint that holds a key is not told": {
		rewired{begin: func(s onefold.Store, r onefold.Request) (onefold.Grant, error) {
			g, err := s.Begin(context.Background(), r)
			g.Held = onefold.Fingerprint{}
			return g, err
		}},
		[]string{"another fingerprint on a running key is a mismatch", "another fingerprint on a done key is a mismatch"},
	},
	"tokens are not compared where the handle is right": {
		rewired{
			begin: func(s onefold.Store, r onefold.Request) (onefold.Grant, error) {
				g, err := s.Begin(context.Background(), r)
				if g.Claim != nil {
					g.Claim.Handle = *g.Claim
				}
				return g, err
			},
			renew: func(s onefold.Store, c *onefold.Claim) error {
				if own, ok := c.Handle.(onefold.Claim); ok {
					c = &own
				}
				return s.Renew(context.Background(), c, lease)
			},
		},
		[]string{"a wrong token is refused"},
	},
	"tokens lack the epoch": {
		rewired{info: func(i *onefold.Info) { i.Epoch += 7 }},
		[]string{"the epoch grows"},
	},
	"a refused commit costs the claim": {
		rewired{commit: func(ctx context.Context, s onefold.Store, batch []*onefold.Commit) error {
			err := s.Commit(ctx, batch)
			for _, c := range batch {
				if errors.Is(c.Err, onefold.ErrConflict) {
					_ = s.Release(ctx, c.Claim, onefold.Failure{})
				}
			}
			return err
		}},
		[]string{"a refused commit keeps its claim"},
	},
	"a caller that leaves is told that nothing is stored": {
		rewired{commit: func(ctx context.Context, s onefold.Store, batch []*onefold.Commit) error {
			err := s.Commit(ctx, batch)
			return errors.Join(err, ctx.Err())
		}},
		[]string{"repeat after an unknown answer", "repeat after an unknown answer without a claim"},
	},
	"a failed write is called a success": {
		rewired{commit: func(ctx context.Context, s onefold.Store, batch []*onefold.Commit) error {
			_ = s.Commit(ctx, batch)
			return nil
		}},
		[]string{"a write that fails unknown is never half believed"},
	},
	"effects without an ID are given one": {
		rewired{commit: func(ctx context.Context, s onefold.Store, batch []*onefold.Commit) error {
			for _, c := range batch {
				for i := range c.Entry.Effects {
					if f := &c.Entry.Effects[i]; f.ID == "" {
						f.ID = "made up"
					}
				}
			}
			return s.Commit(ctx, batch)
		}},
		[]string{"a bad effect is refused"},
	},
	"timers are not cancelled": {
		rewired{commit: func(ctx context.Context, s onefold.Store, batch []*onefold.Commit) error {
			for _, c := range batch {
				c.Entry.Effects = slices.DeleteFunc(slices.Clone(c.Entry.Effects), func(f onefold.Effect) bool { return f.Cancel })
			}
			return s.Commit(ctx, batch)
		}},
		[]string{"cancelling a timer lets its ordering key go on"},
	},
	"reasons are cut anywhere": {
		rewired{release: func(s onefold.Store, c *onefold.Claim, f onefold.Failure) error {
			f.Reason = f.Reason[:min(len(f.Reason), onefold.MaxReasonBytes)]
			return s.Release(context.Background(), c, f)
		}},
		[]string{"a long reason is cut"},
	},
	"Erase does nothing": {
		rewired{erase: func(onefold.Store, onefold.Key) error { return nil }},
		[]string{
			"erasing a key that was used again leaves no result", "rows of an expired key can be erased",
			"erasing a row lets its ordering key go on",
		},
	},
	"long keys are cut": {
		rewired{scan: func(item onefold.Item) onefold.Item {
			if item.Record != nil && len(item.Record.Key.ID) > 1<<10 {
				item.Record.Key.ID = item.Record.Key.ID[:1<<10]
			}
			return item
		}},
		[]string{"a long key comes back unchanged"},
	},
	"every settlement is called a success": {
		rewired{settle: func(s onefold.Store, all []onefold.Settlement) error {
			_ = s.Settle(context.Background(), all)
			return nil
		}},
		[]string{
			"a row of another store settles nothing", "a row of an earlier open settles nothing, closed",
			"a row of an earlier open settles nothing, cut off", "a lost hold settles nothing",
		},
	},
	"announced calls are not recorded": {
		rewired{settle: func(s onefold.Store, all []onefold.Settlement) error {
			if len(all) == 1 && all[0].State == onefold.Tried {
				return nil
			}
			return s.Settle(context.Background(), all)
		}},
		[]string{"a feed closed under an announced call", "a lease ended under an announced call"},
	},
	"estimates miss what is there": {
		rewired{stats: func(st *onefold.Stats) { st.Exact, st.Records = false, 0 }},
		[]string{"stats count"},
	},
	"estimates count what never was": {
		rewired{stats: func(st *onefold.Stats) { st.Exact, st.Waiting = false, 1000 }},
		[]string{"stats count"},
	},
}

func TestTheSuiteFindsStoresThatBreakOneRule(t *testing.T) {
	sound := hooked(func(s onefold.Store) onefold.Store { return s })
	for name, b := range broken {
		t.Run(name, func(t *testing.T) {
			spoiled := hooked(func(s onefold.Store) onefold.Store {
				w := b.store
				w.Store = s
				return w
			})
			for _, rule := range b.fails {
				assert.True(t, passes(t, sound, rule, patience), "%q must pass on a sound store", rule)
				assert.False(t, passes(t, spoiled, rule, time.Second), "%q must fail", rule)
			}
		})
	}
}

func TestTheSuiteFindsASecondOpener(t *testing.T) {
	h := Harness{Open: openShared}
	assert.False(t, passes(t, h, "a second opener is refused", time.Second))
}

// forgetful is a feed that forgets what it has handed out.
type forgetful struct{ shared }

func (s forgetful) Feed(ctx context.Context, lease time.Duration) (onefold.Feed, error) {
	f, err := s.shared.Feed(ctx, lease)
	return twice{f}, err
}

type twice struct{ onefold.Feed }

func (f twice) Next(ctx context.Context, max int) ([]onefold.Row, error) {
	rows, err := f.Feed.Next(ctx, max)
	return slices.Concat(rows, rows), err
}

func TestTheSuiteFindsFeedsThatHandOutTwice(t *testing.T) {
	h := Harness{Open: func(t testing.TB, clock onefold.Clock) Instance {
		in := openShared(t, clock)
		in.Store = forgetful{in.Store.(shared)}
		return in
	}}
	for _, rule := range []string{"several feeds share the rows", "rows of a closed feed go to another", "an ordering key is one over several feeds"} {
		assert.True(t, passes(t, Harness{Open: openShared}, rule, patience), rule)
		assert.False(t, passes(t, h, rule, time.Second), rule)
	}
}
