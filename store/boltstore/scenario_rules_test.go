package boltstore_test

import (
	"testing"

	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/storetest"
)

// Rows that a store decides alone are rules of the conformance suite. Here each row names its rules, and they are
// checked on a plain store, on one in which half of all keys share a hash, and on one that moves nearly every
// record into a segment of its own while it is used.
func rules(t *testing.T, names ...string) {
	t.Helper()
	for name, h := range map[string]storetest.Harness{
		"plain":         harness(boltstore.Options{}, boltstore.Hooks{}),
		"shared hashes": harness(boltstore.Options{}, boltstore.Hooks{HashBits: 1}),
		"segments":      harness(boltstore.Options{SegmentRecords: 1}, boltstore.Hooks{HashBits: 8, PieceRecords: 1}),
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
