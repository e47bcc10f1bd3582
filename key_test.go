package onefold_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
)

func TestDifferentKeysNeverShareTheirCanonicalForm(t *testing.T) {
	keys := []onefold.Key{
		{}, {Scope: "a", ID: "bc"}, {Scope: "ab", ID: "c"}, {Scope: "abc"}, {ID: "abc"},
		{Scope: "a\x00b", ID: "c"}, {Scope: "a", ID: "b\x00c"}, {Scope: "a", ID: "b", Gen: 1}, {Scope: "a", ID: "b\x01"},
	}
	seen := map[string]onefold.Key{}
	for _, k := range keys {
		form := string(k.Append(nil))
		other, taken := seen[form]
		assert.False(t, taken, "%v and %v", k, other)
		seen[form] = k
	}
}

func TestDerivedIDsAreStableAndDifferByKeyGenerationIndexAndName(t *testing.T) {
	k := onefold.Key{Scope: "ORDERS/billing", ID: "7"}
	redo := onefold.Key{Scope: "ORDERS/billing", ID: "7", Gen: 1}
	ids := []string{
		k.EffectID(0), k.EffectID(1), redo.EffectID(0), k.TimerID("0"), k.TimerID("late"),
		k.IdempotencyKey("0"), k.IdempotencyKey("late"), k.Derive("mismatch", "7").EffectID(0),
	}
	seen := map[string]bool{}
	for _, id := range ids {
		assert.Len(t, id, 32)
		assert.False(t, seen[id], "an ID stands for two things")
		seen[id] = true
	}
	assert.Equal(t, k.EffectID(0), k.EffectID(0))
	// Stored rows and receivers depend on these values: a change breaks deduplication across an upgrade.
	assert.Equal(t, "a7b6134ee2b739d3fe0e841ce3191cb0", k.EffectID(0))
}

func TestAKeyIsShownOnOneLineWhateverItsID(t *testing.T) {
	for _, c := range []struct{ id, want string }{
		{"order-1", "S/order-1"},
		{"a\nb", `S/"a\nb"`},
		{"\x00\xff", `S/"\x00\xff"`},
		{"日本", `S/"\u65e5\u672c"`},
	} {
		assert.Equal(t, c.want, onefold.Key{Scope: "S", ID: c.id}.String())
	}
	long := onefold.Key{Scope: "S", ID: strings.Repeat("x\n", 5000), Gen: 2}.String()
	assert.Less(t, len(long), 300)
	assert.NotContains(t, long, "\n")
	assert.Contains(t, long, "10000 bytes")
	assert.True(t, strings.HasSuffix(long, "#2"))
}

func TestFingerprintsConflictOnlyWithinAVersion(t *testing.T) {
	one, two := onefold.Fingerprint{Version: 1, Sum: [16]byte{1}}, onefold.Fingerprint{Version: 1, Sum: [16]byte{2}}
	assert.True(t, one.Conflicts(two))
	assert.False(t, one.Conflicts(one))
	assert.False(t, one.Conflicts(onefold.Fingerprint{Version: 2, Sum: [16]byte{2}}), "another selection cannot be compared")
	assert.False(t, one.Conflicts(onefold.Fingerprint{}), "an unchecked message matches")
	assert.False(t, onefold.Fingerprint{}.Conflicts(onefold.Fingerprint{Sum: [16]byte{9}}))
	assert.Equal(t, "none", onefold.Fingerprint{}.String())
	assert.Equal(t, "v1:01000000000000000000000000000000", one.String())
}

func ExampleKey_IdempotencyKey() {
	k := onefold.Key{Scope: "ORDERS/billing", ID: "order-7"}
	fmt.Println(k.IdempotencyKey("charge"))
	fmt.Println(k.IdempotencyKey("refund"))
	// Output:
	// fc5c5dadc76f4effd0a39213ca4a85ff
	// ade729f6fd1b0f2c47076375d00faa7e
}
