package sim

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// breakage is something that is wrong on purpose, below the ledger or in the handler.
type breakage struct {
	wrap func(onefold.Store) onefold.Store // nil: the store is as it is
	run  func(w *world)                    // by each run of the handler; nil: nothing
}

func (b *breakage) store(st onefold.Store) onefold.Store {
	if b == nil || b.wrap == nil {
		return st
	}
	return b.wrap(st)
}

func (b *breakage) handler(w *world) {
	if b != nil && b.run != nil {
		b.run(w)
	}
}

// broken is a store with some methods in place of its own; nil: its own.
type broken struct {
	onefold.Store
	begin   func(onefold.Store, onefold.Request) (onefold.Grant, error)
	commit  func(onefold.Store, []*onefold.Commit) error
	release func(onefold.Store, *onefold.Claim, onefold.Failure) error
	settle  func(onefold.Store, []onefold.Settlement) error
	wait    func(onefold.Store, onefold.Key) (onefold.Record, error)
	feed    func(onefold.Feed, onefold.Store) onefold.Feed
}

func (s *broken) Begin(ctx context.Context, r onefold.Request) (onefold.Grant, error) {
	if s.begin == nil {
		return s.Store.Begin(ctx, r)
	}
	return s.begin(s.Store, r)
}

func (s *broken) Commit(ctx context.Context, batch []*onefold.Commit) error {
	if s.commit == nil {
		return s.Store.Commit(ctx, batch)
	}
	return s.commit(s.Store, batch)
}

func (s *broken) Release(ctx context.Context, c *onefold.Claim, f onefold.Failure) error {
	if s.release == nil {
		return s.Store.Release(ctx, c, f)
	}
	return s.release(s.Store, c, f)
}

func (s *broken) Settle(ctx context.Context, all []onefold.Settlement) error {
	if s.settle == nil {
		return s.Store.Settle(ctx, all)
	}
	return s.settle(s.Store, all)
}

func (s *broken) Wait(ctx context.Context, k onefold.Key) (onefold.Record, error) {
	if s.wait == nil {
		return s.Store.Wait(ctx, k)
	}
	return s.wait(s.Store, k)
}

func (s *broken) Feed(ctx context.Context, lease time.Duration) (onefold.Feed, error) {
	f, err := s.Store.Feed(ctx, lease)
	if err != nil || s.feed == nil {
		return f, err
	}
	return s.feed(f, s.Store), nil
}

var always = context.Background()

// silent reports success for entries with effects and stores nothing.
func silent(st onefold.Store, batch []*onefold.Commit) error {
	if len(batch) == 1 && len(batch[0].Entry.Effects) > 0 {
		return nil
	}
	return st.Commit(always, batch)
}

// twice grants what another holds.
func twice(st onefold.Store, r onefold.Request) (onefold.Grant, error) {
	g, err := st.Begin(always, r)
	if err == nil && g.Verdict == onefold.Busy {
		return granted(r, 1<<60), nil
	}
	return g, err
}

// granted is a claim that the store knows nothing of.
func granted(r onefold.Request, token uint64) onefold.Grant {
	return onefold.Grant{Verdict: onefold.Granted, Claim: &onefold.Claim{Key: r.Key, Token: token, Lease: r.Lease}}
}

// forgetting forgets that a key is done.
func forgetting(st onefold.Store, r onefold.Request) (onefold.Grant, error) {
	g, err := st.Begin(always, r)
	if err == nil && g.Verdict == onefold.Done {
		return granted(r, g.Record.Token+1), nil
	}
	return g, err
}

// melting is a store whose claims end while their commits are under way.
func melting() *broken {
	under := map[onefold.Key]bool{}
	return &broken{
		begin: func(st onefold.Store, r onefold.Request) (onefold.Grant, error) {
			if g, err := st.Begin(always, r); err != nil || g.Verdict != onefold.Busy || !under[r.Key] {
				return g, err
			}
			return granted(r, 1<<60), nil
		},
		commit: func(st onefold.Store, batch []*onefold.Commit) error {
			for _, c := range batch {
				under[c.Entry.Key] = true
				defer delete(under, c.Entry.Key)
			}
			return st.Commit(always, batch)
		},
	}
}

// heedless stores entries whatever has become of the state that they were computed from.
func heedless(st onefold.Store, batch []*onefold.Commit) error {
	for _, c := range batch {
		c.Entry.Reads = nil
	}
	return st.Commit(always, batch)
}

// late accepts the commit of a claim that has ended, if nobody has the key now.
func late(st onefold.Store, batch []*onefold.Commit) error {
	err := st.Commit(always, batch)
	for _, c := range batch {
		if errors.Is(c.Err, onefold.ErrLost) {
			c.Err = nil
		}
	}
	return err
}

// uncounting forgets failures.
func uncounting(st onefold.Store, c *onefold.Claim, f onefold.Failure) error {
	f.Counted = false
	return st.Release(always, c, f)
}

// hasty says that a dead letter has left as soon as it is stored.
func hasty(st onefold.Store, k onefold.Key) (onefold.Record, error) { return st.Lookup(always, k) }

// careless takes rows out when it hands them out.
type careless struct {
	onefold.Feed
	st onefold.Store
}

func (f careless) Next(ctx context.Context, limit int) ([]onefold.Row, error) {
	rows, err := f.Feed.Next(ctx, limit)
	for _, r := range rows {
		_ = f.st.Settle(ctx, []onefold.Settlement{{Row: r, State: onefold.Discarded}})
	}
	return rows, err
}

// idle says that rows are settled and keeps them.
func idle(onefold.Store, []onefold.Settlement) error { return nil }

// breakages are by what is wrong.
var breakages = map[string]breakage{
	"a store reports success without storing": breakStore(broken{commit: silent}),
	"a claim is granted twice":                breakStore(broken{begin: twice}),
	"a record vanishes after its commit":      breakStore(broken{begin: forgetting}),
	"a lease ends during its commit":          {wrap: func(st onefold.Store) onefold.Store { b := melting(); b.Store = st; return b }},
	"a conflict is overlooked":                breakStore(broken{commit: heedless}),
	"a lost commit is reported as stored":     breakStore(broken{commit: late}),
	"failures are not counted":                breakStore(broken{release: uncounting}),
	"a dead letter is said to have left":      breakStore(broken{wait: hasty}),
	"rows are taken out when handed out":      breakStore(broken{feed: func(f onefold.Feed, st onefold.Store) onefold.Feed { return careless{f, st} }}),
	"settled rows stay":                       breakStore(broken{settle: idle}),
	"a handler publishes by itself": {run: func(w *world) {
		_, _ = w.answers(&nats.Msg{Subject: outSubject, Header: nats.Header{nats.MsgIdHdr: {"its own"}}, Data: []byte("its own")})
	}},
	"a handler counts by itself": {run: func(w *world) {
		_ = w.memory.Commit(always, []*onefold.Commit{{Entry: onefold.Entry{Writes: []onefold.Write{{Table: countTable, Key: "odd", Value: []byte("99")}}}}})
	}},
}

func breakStore(b broken) breakage {
	return breakage{wrap: func(st onefold.Store) onefold.Store {
		own := b
		own.Store = st
		return &own
	}}
}

// TestTheSimulatorNoticesWhatIsBroken is the test of the judge.
func TestTheSimulatorNoticesWhatIsBroken(t *testing.T) {
	const within = 3000 // schedules
	for what, b := range breakages {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				seed := uint64(1)
				for ; seed <= within && play(draw(seed), &b) == ""; seed++ {
				}
				require.LessOrEqual(t, seed, uint64(within), "not noticed")
				short := shrink(draw(seed), &b)
				wrong := play(short, &b)
				t.Logf("seed %d, %d steps: %s", seed, len(short.steps), wrong)
				assert.NotEmpty(t, wrong, "the shortened schedule does not fail")
				assert.LessOrEqual(t, len(short.steps), 12, "it could be shorter")
				assert.Empty(t, play(short, nil), "the schedule fails without what is broken, too")
			})
		})
	}
}
