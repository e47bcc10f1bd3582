package storetest

import (
	"context"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a testing.TB that notes whether a case failed instead of failing the test.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
}

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Errorf(string, ...any) { r.Fail() }
func (r *recorder) Error(...any)          { r.Fail() }
func (r *recorder) Fatalf(string, ...any) { r.FailNow() }
func (r *recorder) Fatal(...any)          { r.FailNow() }

// passes runs the case with this name on stores of h and reports whether it passed.
func passes(t *testing.T, h Harness, name string, patience time.Duration) bool {
	t.Helper()
	all := cases()
	i := slices.IndexFunc(all, func(c testCase) bool { return c.name == name })
	require.GreaterOrEqual(t, i, 0, "no case %q", name)
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // FailNow ends its goroutine
		defer close(done)
		all[i].run(newEnv(r, h, patience))
	}()
	<-done
	return !r.Failed()
}

// spoiled is a memory store behind the wrapper that spoil puts around it.
func spoiled(spoil func(onefold.Store) onefold.Store) Harness {
	return Harness{Open: func(t testing.TB, clock onefold.Clock) Instance {
		s, err := memstore.Open(memstore.NewData(clock), &memstore.Options{Clock: clock})
		require.NoError(t, err)
		return Instance{Store: spoil(s)}
	}}
}

// The spoiled stores break one rule each.

type grantsTwice struct{ onefold.Store }

func (s grantsTwice) Begin(ctx context.Context, r onefold.Request) (onefold.Grant, error) {
	g, err := s.Store.Begin(ctx, r)
	if g.Verdict == onefold.Busy {
		g = onefold.Grant{Verdict: onefold.Granted, Claim: &onefold.Claim{Key: r.Key, Token: 1}}
	}
	return g, err
}

type forgetsEffects struct{ onefold.Store }

func (s forgetsEffects) Commit(ctx context.Context, batch []*onefold.Commit) error {
	for _, c := range batch {
		c.Entry.Effects = nil
	}
	return s.Store.Commit(ctx, batch)
}

type ignoresReads struct{ onefold.Store }

func (s ignoresReads) Commit(ctx context.Context, batch []*onefold.Commit) error {
	for _, c := range batch {
		c.Entry.Reads = nil
	}
	return s.Store.Commit(ctx, batch)
}

type delaysInsteadOfSent struct{ onefold.Store }

func (s delaysInsteadOfSent) Settle(ctx context.Context, all []onefold.Settlement) error {
	all = slices.Clone(all)
	for i := range all {
		if all[i].State == onefold.Sent && all[i].Row.Key.Scope == key("").Scope {
			all[i].State = onefold.Delayed
		}
	}
	return s.Store.Settle(ctx, all)
}

type ignoresFingerprints struct{ onefold.Store }

func (s ignoresFingerprints) Begin(ctx context.Context, r onefold.Request) (onefold.Grant, error) {
	r.Fingerprint = onefold.Fingerprint{}
	return s.Store.Begin(ctx, r)
}

type joinsKeyParts struct{ onefold.Store }

func (s joinsKeyParts) Begin(ctx context.Context, r onefold.Request) (onefold.Grant, error) {
	asked := r.Key
	r.Key = onefold.Key{Scope: asked.Scope + asked.ID, Gen: asked.Gen}
	g, err := s.Store.Begin(ctx, r)
	if g.Claim != nil {
		g.Claim.Key = asked
	}
	return g, err
}

type failsWhole struct{ onefold.Store }

func (s failsWhole) Commit(ctx context.Context, batch []*onefold.Commit) error {
	err := s.Store.Commit(ctx, batch)
	for _, c := range batch {
		if c.Err != nil {
			return c.Err
		}
	}
	return err
}

type hidesParked struct{ onefold.Store }

func (s hidesParked) Scan(ctx context.Context, q onefold.Query) iter.Seq2[onefold.Item, error] {
	if q.What == onefold.WhatParked {
		q.What = onefold.WhatWaiting
	}
	return s.Store.Scan(ctx, q)
}

func TestTheSuiteFindsBrokenStores(t *testing.T) {
	sound := spoiled(func(s onefold.Store) onefold.Store { return s })
	for name, broken := range map[string]struct {
		spoil func(onefold.Store) onefold.Store
		fails []string
	}{
		"Begin grants a key that is held": {
			func(s onefold.Store) onefold.Store { return grantsTwice{s} },
			[]string{"one of fifty callers is granted", "busy changes nothing", "duplicates that race the commit are never granted"},
		},
		"Commit forgets effects": {
			func(s onefold.Store) onefold.Store { return forgetsEffects{s} },
			[]string{"everything of an entry is stored together", "a row is handed out as it was committed"},
		},
		"Commit does not check versions": {
			func(s onefold.Store) onefold.Store { return ignoresReads{s} },
			[]string{"of two that read one version one commits", "reading something absent is a read"},
		},
		"Settle brings sent rows back": {
			func(s onefold.Store) onefold.Store { return delaysInsteadOfSent{s} },
			[]string{"a sent row is over", "a final state never goes back", "rows of one ordering key leave one at a time"},
		},
		"Begin does not compare fingerprints": {
			func(s onefold.Store) onefold.Store { return ignoresFingerprints{s} },
			[]string{"another fingerprint on a running key is a mismatch", "another fingerprint on a done key is a mismatch"},
		},
		"keys are joined without their lengths": {
			func(s onefold.Store) onefold.Store { return joinsKeyParts{s} },
			[]string{"keys with other parts are other work"},
		},
		"one failing entry fails its batch": {
			func(s onefold.Store) onefold.Store { return failsWhole{s} },
			[]string{"an entry that fails fails alone"},
		},
		"parked rows cannot be found": {
			func(s onefold.Store) onefold.Store { return hidesParked{s} },
			[]string{"a parked row waits for a person"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, rule := range broken.fails {
				assert.True(t, passes(t, sound, rule, patience), "%q must pass on a sound store", rule)
				assert.False(t, passes(t, spoiled(broken.spoil), rule, time.Second), "%q must fail", rule)
			}
		})
	}
}

func TestEachRuleHasItsNameAndSentence(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		assert.False(t, seen[r.Name], "%q is there twice", r.Name)
		seen[r.Name] = true
		assert.NotContains(t, r.Name, "/", "a subtest of its own")
		assert.True(t, strings.HasSuffix(r.Text, ".") || strings.HasSuffix(r.Text, ".)"), "%q: %q is no sentence", r.Name, r.Text)
		assert.NotContains(t, r.Text, "\n")
	}
}

// bare is a store that can do little, to see what becomes of the rules it cannot be held to.
type bare struct{ onefold.Store }

func (bare) Info() onefold.Info {
	return onefold.Info{Kind: "bare", Expiry: onefold.ExpiryServer, MaxEntry: onefold.DefaultMaxEntry}
}

func TestRulesThatDoNotApplyAreNamed(t *testing.T) {
	h := Harness{Open: func(t testing.TB, clock onefold.Clock) Instance {
		s, err := memstore.Open(memstore.NewData(clock), &memstore.Options{Clock: clock})
		require.NoError(t, err)
		return Instance{Store: bare{newShared(s)}}
	}}
	can := abilitiesOf(t, h)
	reasons := map[string]string{}
	for _, c := range cases() {
		reasons[c.name] = c.missing(can)
	}
	assert.Contains(t, reasons["a record lives for its retention"], "Info.Expiry")
	assert.Contains(t, reasons["closed time does not count"], "Info.Expiry")
	assert.Contains(t, reasons["stored things survive, cut off"], "Instance.Reopen")
	assert.Contains(t, reasons["rows of one ordering key leave one at a time"], "Info.Ordered")
	assert.Contains(t, reasons["a named timer is replaced"], "Info.Timers")
	assert.Contains(t, reasons["a second feed is refused"], "Info.OneFeed")
	assert.Contains(t, reasons["close waits for accepted commits"], "HoldCommits")
	assert.Contains(t, reasons["a second opener is refused"], "Another")
	assert.Contains(t, reasons["handles share claims and outcomes"], "Another")
	assert.Empty(t, reasons["several feeds share the rows"])
	assert.Empty(t, reasons["one of fifty callers is granted"])
	Run(t, h) // what is left holds
}

func TestClockMovesOnlyWhenTold(t *testing.T) {
	c := NewClock()
	wall, mono := c.Wall(), c.Mono()
	c.Advance(time.Minute)
	assert.Equal(t, time.Minute, c.Wall().Sub(wall))
	assert.Equal(t, time.Minute, c.Mono()-mono)
	c.StepWall(-time.Hour)
	assert.Equal(t, time.Minute-time.Hour, c.Wall().Sub(wall))
	assert.Equal(t, time.Minute, c.Mono()-mono)
	c.NewProcess()
	assert.Zero(t, c.Clock().Mono())
	assert.Equal(t, c.Wall(), c.Clock().Wall())
}
