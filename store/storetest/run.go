package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/onefold-go/onefold"
)

// Rule is one promise that the suite checks.
type Rule struct {
	Name string // name of the subtest
	Text string // the rule in one sentence
}

// Rules lists what [Run] checks, in its order.
func Rules() []Rule {
	all := cases()
	rules := make([]Rule, len(all))
	for i, c := range all {
		rules[i] = Rule{Name: c.name, Text: c.rule}
	}
	return rules
}

// Run checks every rule that applies to the store, each on fresh stores in a subtest of its own. The last
// subtest, "does not apply", logs the names of the rules that do not apply, with the reason.
func Run(t *testing.T, h Harness) {
	t.Helper()
	can := abilitiesOf(t, h)
	var left []string
	for _, c := range cases() {
		if reason := c.missing(can); reason != "" {
			left = append(left, c.name+": "+reason)
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Log(c.rule)
			c.run(newEnv(t, h, patience))
		})
	}
	t.Run("does not apply", func(t *testing.T) {
		for _, line := range left {
			t.Log(line)
		}
		t.Logf("%d rules do not apply", len(left))
	})
}

// RunRules checks the rules with these names ([Rules] lists them), each in a subtest of its own: what a store is worked
// on needs, or what a test of one promise rests on. A name that the suite does not have, or a rule that does not
// apply to the store, fails the test.
func RunRules(t *testing.T, h Harness, names ...string) {
	t.Helper()
	can := abilitiesOf(t, h)
	all := cases()
	for _, name := range names {
		i := slices.IndexFunc(all, func(c testCase) bool { return c.name == name })
		if i < 0 {
			t.Errorf("the suite has no rule %q", name)
			continue
		}
		if reason := all[i].missing(can); reason != "" {
			t.Errorf("rule %q does not apply: %s", name, reason)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Log(all[i].rule)
			all[i].run(newEnv(t, h, patience))
		})
	}
}

// testCase is one rule and the code that checks it.
type testCase struct {
	name  string
	rule  string
	needs need
	run   func(e *env)
}

// need is a set of abilities that a case relies on.
type need uint16

const (
	needClock     need = 1 << iota // leases and retention follow the clock of the suite
	needReopen                     // the data can be opened again
	needEpoch                      // tokens carry the epoch of a one-process store
	needOrder                      // ordering keys
	needTimers                     // delays and timers
	needOneFeed                    // a second feed is refused
	needLimit                      // a limit on records
	needHold                       // a commit can be held in flight
	needAttention                  // Scan knows WhatAttention
	needFeeds                      // several feeds at once
	needFail                       // a write can fail with an unknown outcome
	needSecond                     // a second opener is refused
	needShared                     // a second handle shares the data
)

// needReasons says why a case does not apply if the store lacks an ability.
var needReasons = []struct {
	need need
	text string
}{
	{needClock, "Info.Expiry: time is not the suite's to move"},
	{needReopen, "Instance.Reopen is nil: the store keeps nothing"},
	{needEpoch, "Info.OneProcess is false: there is no epoch"},
	{needOrder, "Info.Ordered is false"},
	{needTimers, "Info.Timers is false"},
	{needOneFeed, "Info.OneFeed is false: several feeds are allowed"},
	{needLimit, "Harness.Limited is nil: there is no limit on records"},
	{needHold, "Instance.HoldCommits is nil: a commit cannot be held in flight"},
	{needAttention, "Scan of WhatAttention is not supported"},
	{needFeeds, "Info.OneFeed is true: there is one feed"},
	{needFail, "Instance.FailCommits is nil: a write cannot be made to fail"},
	{needSecond, "Instance.Another is nil or Info.OneProcess is false: no second opener is refused"},
	{needShared, "Instance.Another is nil or Info.OneProcess is true: the data has one handle"},
}

// missing returns the reason why c does not apply to a store with these abilities, or "".
func (c *testCase) missing(can need) string {
	for _, r := range needReasons {
		if c.needs&r.need != 0 && can&r.need == 0 {
			return r.text
		}
	}
	return ""
}

// abilitiesOf reads what the stores of h can do from one that it opens for that.
func abilitiesOf(t testing.TB, h Harness) need {
	t.Helper()
	e := newEnv(t, h, patience)
	info := e.store.Info()
	can := need(0)
	for n, ok := range map[need]bool{
		needClock:     info.Expiry == onefold.ExpiryStore,
		needReopen:    e.in.Reopen != nil,
		needEpoch:     info.OneProcess,
		needOrder:     info.Ordered,
		needTimers:    info.Timers,
		needOneFeed:   info.OneFeed,
		needLimit:     h.Limited != nil,
		needHold:      e.in.HoldCommits != nil,
		needFeeds:     !info.OneFeed,
		needFail:      e.in.FailCommits != nil,
		needSecond:    e.in.Another != nil && info.OneProcess,
		needShared:    e.in.Another != nil && !info.OneProcess,
		needAttention: !errors.Is(e.scanErr(onefold.Query{What: onefold.WhatAttention}), onefold.ErrUnsupported),
	} {
		if ok {
			can |= n
		}
	}
	return can
}
