package onefold_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

var checkedKey = onefold.Key{Scope: "ORDERS/billing", ID: "order-1"}

// goodRequest is a request that every store takes.
func goodRequest() onefold.Request {
	return onefold.Request{Key: checkedKey, Lease: time.Minute, Holder: onefold.Holder{Process: 1}}
}

// goodCommit is a commit with something in every field, that every store of kind "kind" takes.
func goodCommit() *onefold.Commit {
	return &onefold.Commit{
		Claim: &onefold.Claim{Key: checkedKey, Token: 1},
		Entry: onefold.Entry{
			Key: checkedKey, Outcome: onefold.Succeeded, Retain: time.Hour, Result: []byte("paid"),
			Reads:  []onefold.Read{{Table: "t", Key: "x"}},
			Joins:  []onefold.Join{joinOf("kind")},
			Writes: []onefold.Write{{Table: onefold.ReservedTablePrefix + "floor", Key: "x", Value: []byte("1")}},
			Effects: []onefold.Effect{
				{ID: "e1", Kind: onefold.KindMessage, Target: "invoices", Header: onefold.Header{"Trace": {"a", "b"}}},
				{ID: "t1", Timer: "timeout", Cancel: true},
			},
		},
	}
}

// joinOf is a join of the kind it names.
type joinOf string

func (j joinOf) StoreKind() string { return string(j) }

var checkingStore = onefold.Info{Kind: "kind", MaxEntry: 1 << 10}

func TestABadRequestIsRefusedByField(t *testing.T) {
	for field, spoil := range map[string]func(*onefold.Request){
		"Request.Key":    func(r *onefold.Request) { r.Key = onefold.Key{} },
		"Request.Lease":  func(r *onefold.Request) { r.Lease = -time.Second },
		"Request.Holder": func(r *onefold.Request) { r.Holder = onefold.Holder{} },
	} {
		r := goodRequest()
		require.NoError(t, r.Check())
		spoil(&r)
		err := r.Check()
		require.ErrorIs(t, err, onefold.ErrInvalid, field)
		assert.ErrorContains(t, err, field)
	}
}

func TestABadCommitIsRefusedByField(t *testing.T) {
	long := strings.Repeat("k", onefold.MaxStateKeyBytes)
	for _, bad := range []struct {
		field string
		want  error
		spoil func(*onefold.Commit)
	}{
		{"Entry.Key", onefold.ErrInvalid, func(c *onefold.Commit) { c.Claim.Key.ID = "another" }},
		{"Entry.Key", onefold.ErrInvalid, func(c *onefold.Commit) { c.Entry.Key = onefold.Key{}; c.Claim = nil }},
		{"Entry.Outcome", onefold.ErrInvalid, func(c *onefold.Commit) { c.Entry.Outcome = 0 }},
		{"Entry.Outcome is 4", onefold.ErrInvalid, func(c *onefold.Commit) { c.Entry.Outcome = onefold.ParkedUnknown + 1 }},
		{"Entry.Retain", onefold.ErrInvalid, func(c *onefold.Commit) { c.Entry.Retain = 0 }},
		{"Entry.Joins[0]", onefold.ErrUnsupported, func(c *onefold.Commit) { c.Entry.Joins[0] = joinOf("other") }},
		{"Entry.Joins[0]", onefold.ErrInvalid, func(c *onefold.Commit) { c.Entry.Joins[0] = nil }},
		{"Entry.Reads[0]", onefold.ErrInvalid, func(c *onefold.Commit) { c.Entry.Reads[0].Table = "" }},
		{"Entry.Reads[0]", onefold.ErrInvalid, func(c *onefold.Commit) { c.Entry.Reads[0].Key = long }},
		{"Entry.Writes[0]", onefold.ErrInvalid, func(c *onefold.Commit) { c.Entry.Writes[0].Key = "" }},
		{"Entry.Writes[0]", onefold.ErrInvalid, func(c *onefold.Commit) { c.Entry.Writes[0].Retain = -1 }},
		{"Entry.Effects[0]", onefold.ErrInvalid, func(c *onefold.Commit) { c.Entry.Effects[0].ID = "" }},
		{"Entry.Effects[0]", onefold.ErrInvalid, func(c *onefold.Commit) { c.Entry.Effects[0].Kind = "" }},
		{"Entry.Effects[1]", onefold.ErrInvalid, func(c *onefold.Commit) { c.Entry.Effects[1].ID = "" }},
		{"Entry.Effects[1]", onefold.ErrInvalid, func(c *onefold.Commit) { c.Entry.Effects[1].Timer = "" }},
		{"Info.MaxEntry", onefold.ErrTooLarge, func(c *onefold.Commit) { c.Entry.Result = make([]byte, 1<<10) }},
	} {
		c := goodCommit()
		require.NoError(t, c.Check(checkingStore))
		bad.spoil(c)
		err := c.Check(checkingStore)
		require.ErrorIs(t, err, bad.want, bad.field)
		assert.ErrorContains(t, err, bad.field)
	}
}

func TestAnEntryWithoutAKeyHoldsStateOnly(t *testing.T) {
	c := goodCommit()
	state := onefold.Entry{Reads: c.Entry.Reads, Writes: c.Entry.Writes}
	require.NoError(t, (&onefold.Commit{Entry: state}).Check(checkingStore))
	for field, spoil := range map[string]func(*onefold.Entry){
		"Effects":      func(e *onefold.Entry) { e.Effects = c.Entry.Effects },
		"Joins":        func(e *onefold.Entry) { e.Joins = c.Entry.Joins },
		"Entry.Result": func(e *onefold.Entry) { e.Result = []byte{} },
	} {
		e := state
		spoil(&e)
		err := (&onefold.Commit{Entry: e}).Check(checkingStore)
		require.ErrorIs(t, err, onefold.ErrInvalid, field)
		assert.ErrorContains(t, err, field)
	}
}

func TestABadSettlementIsRefusedByField(t *testing.T) {
	good := onefold.Settlement{Row: onefold.Row{Handle: 1}, State: onefold.Sent}
	require.NoError(t, good.Check())
	for field, bad := range map[string]onefold.Settlement{
		"Row.Handle": {State: onefold.Sent},
		"State is 0": {Row: good.Row},
		"State is 6": {Row: good.Row, State: onefold.Discarded + 1},
	} {
		err := bad.Check()
		require.ErrorIs(t, err, onefold.ErrInvalid, field)
		assert.ErrorContains(t, err, field)
	}
}

func TestWhatIsGoodIsCheckedWithoutAllocation(t *testing.T) {
	r, c := goodRequest(), goodCommit()
	s := onefold.Settlement{Row: onefold.Row{Handle: 1}, State: onefold.Parked, Reason: "poison"}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if r.Check() != nil || c.Check(checkingStore) != nil || s.Check() != nil || onefold.TruncateReason(s.Reason) == "" {
			panic("refused")
		}
	}))
}

func TestAReasonIsCutBetweenCharacters(t *testing.T) {
	for unit, want := range map[string]int{"a": 1024, "é": 1024, "漢": 1023, "🙂": 1024, "x🙂": 1021, "\x80": 1024} {
		reason := strings.Repeat(unit, 2000)
		kept := onefold.TruncateReason(reason)
		assert.True(t, strings.HasPrefix(reason, kept), "the beginning is kept")
		assert.Equal(t, utf8.ValidString(reason), utf8.ValidString(kept), "%q", unit)
		if unit != "\x80" {
			assert.Len(t, kept, want, "%q", unit)
		}
		assert.LessOrEqual(t, len(kept), onefold.MaxReasonBytes)
		assert.Greater(t, len(kept), onefold.MaxReasonBytes-utf8.UTFMax-1)
	}
	assert.Empty(t, onefold.TruncateReason(""))
	whole := strings.Repeat("a", onefold.MaxReasonBytes)
	assert.Equal(t, whole, onefold.TruncateReason(whole))
}

func TestBytesOfAnEntryAreThoseOfItsStringsAndSlices(t *testing.T) {
	assert.Zero(t, (&onefold.Entry{}).Bytes())
	e := goodCommit().Entry
	want := len("ORDERS/billing"+"order-1") + len("paid") + len("t"+"x") + len("onefold.floor"+"x"+"1") +
		len("e1"+"message"+"invoices"+"Trace"+"a"+"Trace"+"b") + len("t1"+"timeout")
	assert.Equal(t, want, e.Bytes())
	e.Retain = math.MaxInt64
	assert.Equal(t, want, e.Bytes())
}

// A store checks what it is given before it does anything else.
func ExampleCommit_Check() {
	k := onefold.Key{Scope: "ORDERS/billing", ID: "order-1"}
	c := &onefold.Commit{Entry: onefold.Entry{Key: k, Outcome: onefold.Succeeded}}
	info := onefold.Info{Kind: "memory", MaxEntry: 1 << 20}
	fmt.Println(c.Check(info))
	c.Entry.Retain = time.Hour
	fmt.Println(c.Check(info))
	// Output:
	// onefold: invalid argument: Entry.Retain is 0s; it must be positive
	// <nil>
}
