package boltstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/memstore"
	"github.com/onefold-go/onefold/store/storetest"
)

// Rows that a store decides alone are rules of the conformance suite. Here each row names its rules, and they are
// checked on a plain store, on one in which half of all keys share a hash, on one that moves nearly every record
// into a segment of its own while it is used, and on the store in memory.
func rules(t *testing.T, names ...string) {
	t.Helper()
	for name, h := range map[string]storetest.Harness{
		"plain":         harness(boltstore.Options{}, boltstore.Hooks{}),
		"shared hashes": harness(boltstore.Options{}, boltstore.Hooks{HashBits: 1}),
		"segments":      harness(boltstore.Options{SegmentRecords: 1}, boltstore.Hooks{HashBits: 8, PieceRecords: 1}),
		"memory": {Open: func(t testing.TB, clock onefold.Clock) storetest.Instance {
			s, err := memstore.Open(memstore.NewData(clock), &memstore.Options{Clock: clock})
			require.NoError(t, err)
			return storetest.Instance{Store: s}
		}},
	} {
		t.Run(name, func(t *testing.T) { storetest.RunRules(t, h, names...) })
	}
}

func TestScenario_D02_ASecondClaimIsRefusedAndLeavesTheFirstAsItWas(t *testing.T) {
	rules(t, "one of fifty callers is granted", "busy changes nothing")
}

func TestScenario_D11_CollectingAnExpiredRecordNeverRemovesTheNewOneOfItsKey(t *testing.T) {
	rules(t, "an expired key used again keeps its new record")
}

// The old record has left the main file when its key is used again, and the collector meets both. State and
// failures, which are collected by other hands, are told apart in the same way.
func TestScenario_D11_CollectingWhatIsSealedStateAndFailuresKeepsWhatIsNew(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	key, state := numbered(5), []onefold.Write{{Table: "t", Key: "x", Value: []byte("old"), Retain: time.Hour}}
	put := func() {
		batch := one(nil, onefold.Entry{Writes: state})
		require.NoError(t, s.Commit(ctx, batch))
		require.NoError(t, batch[0].Err)
	}
	fail := func() onefold.History {
		g, err := s.Begin(ctx, request(numbered(-1)))
		require.NoError(t, err)
		require.NoError(t, s.Release(ctx, g.Claim, onefold.Failure{Reason: "no", Counted: true}))
		return g.History
	}
	s.fill(250)
	put()
	assert.Zero(t, fail().Failures)
	s.clock.Advance(time.Hour + time.Second)
	commit(t, s.Store, key)
	state[0].Value = []byte("new")
	put()
	assert.Equal(t, 1, fail().Failures)
	collect := func() (records uint64) {
		s.Sweep()
		s.KeepUp()
		st, err := s.Stats(ctx)
		require.NoError(t, err)
		return st.Records
	}
	s.clock.Advance(time.Hour - 2*time.Second)
	s.fill(350) // so that the record which stands for the new one is sealed, too
	require.Less(t, collect(), uint64(250), "the old ones are collected")
	g, err := s.Begin(ctx, request(key))
	require.NoError(t, err)
	assert.Equal(t, onefold.Done, g.Verdict)
	assert.Empty(t, g.Record.Result, "it is the new one")
	v, err := s.Read(ctx, "t", "x")
	require.NoError(t, err)
	assert.Equal(t, "new", string(v.Data))
	assert.Equal(t, 2, fail().Failures)
}

func TestScenario_D23_EveryFastPathObeysTheRulesOfClaims(t *testing.T) {
	rules(t, "one of fifty callers is granted", "busy changes nothing", "done gives the stored outcome",
		"keys with other parts are other work", "an equal holder gets its claim back")
}

func TestScenario_D29_EveryClaimEndsAndNoneHasADefaultKey(t *testing.T) {
	rules(t, "a claim holds until its lease ends", "a released key is free at once", "a bad request is refused")
}

func TestScenario_L05_TheLeaseOfARunAndTheRetentionOfItsRecordAreTwoSettings(t *testing.T) {
	rules(t, "a claim holds until its lease ends", "a record lives for its retention", "each record has its own life")
}

func TestScenario_L06_WhoeverWasOvertakenCanDoNothingAndTheNewHolderStands(t *testing.T) {
	rules(t, "an overtaken holder can do nothing", "a late result never replaces the stored one")
}

func TestScenario_L07_AMissingTokenIsRefusedLikeAWrongOne(t *testing.T) {
	rules(t, "a wrong token is refused")
}

func TestScenario_L11_WhoAsksAgainAfterALostReplyGetsItsOwnClaim(t *testing.T) {
	rules(t, "an equal holder gets its claim back")
}

func TestScenario_O17_ARowThatIsCommittedLateIsNotSkipped(t *testing.T) {
	rules(t, "rows that are committed late are not skipped", "rows of one ordering key leave one at a time")
}
