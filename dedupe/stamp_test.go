package dedupe_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

// What is written here must never change: IDs are compared with those that other programs have made.
func TestStableIDsStayAsTheyAre(t *testing.T) {
	for want, parts := range map[string][]string{
		"order/7/created":        {"order", "7", "created"},
		"order":                  {"order"},
		"a%2Fb/c":                {"a/b", "c"},
		"a/b%2Fc":                {"a", "b/c"},
		"a/b/c":                  {"a", "b", "c"},
		"100%25":                 {"100%"},
		"%2525":                  {"%25"},
		"%207":                   {" 7"},
		"7%20":                   {"7 "},
		"M%C3%BCller":            {"Müller"},
		"%00%FF%0D%0A":           {"\x00\xff\r\n"},
		"-_.~:@+/AZaz09":         {"-_.~:@+", "AZaz09"},
		"%2A%3E%22%27%28%29%2C":  {`*>"'(),`},
		"tenant:4@eu+1/2026-1.5": {"tenant:4@eu+1", "2026-1.5"},
	} {
		id, err := dedupe.StableID(parts...)
		require.NoError(t, err)
		assert.Equal(t, want, id)
		assert.True(t, onefold.IsHeaderValue(id))
	}
}

func TestAStableIDIsNotMadeOfWhatIsMissing(t *testing.T) {
	long := strings.Repeat("x", dedupe.MaxStableIDBytes)
	tests := []struct {
		name  string
		parts []string
		want  error
		says  string
	}{
		{"no part", nil, dedupe.ErrMissingID, "no part"},
		{"an empty part", []string{"order", "", "created"}, dedupe.ErrMissingID, `part 1 of the ID, counted from 0, is ""`},
		{"a blank part", []string{"order", "7", " \t\n"}, dedupe.ErrMissingID, `part 2 of the ID, counted from 0, is " \t\n"`},
		{"too long", []string{"x", long}, onefold.ErrInvalid, "longer than 1024 bytes with part 1"},
		{"too long when escaped", []string{strings.Repeat("ü", 171)}, onefold.ErrInvalid, "give a digest"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := onefold.Header{"Nats-Msg-Id": {"before"}}
			id, err := dedupe.Stamp(h, tt.parts...)
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, tt.says)
			assert.Less(t, len(err.Error()), 300)
			assert.Empty(t, id)
			assert.Equal(t, onefold.Header{"Nats-Msg-Id": {"before"}}, h)
		})
	}
	id, err := dedupe.StableID(long)
	require.NoError(t, err)
	assert.Equal(t, long, id)
}

func TestAStampReplacesWhatWasThereAndIsFound(t *testing.T) {
	h := onefold.Header{"Onefold-Id": {"a", "b"}, "Nats-Msg-Id": {"c"}, "Other": {"d"}}
	for range 2 {
		id, err := dedupe.Stamp(h, "order", "7")
		require.NoError(t, err)
		assert.Equal(t, "order/7", id)
	}
	assert.Equal(t, onefold.Header{"Onefold-Id": {"order/7"}, "Nats-Msg-Id": {"order/7"}, "Other": {"d"}}, h)
	found, err := dedupe.DefaultID(&onefold.Message{Header: h})
	require.NoError(t, err)
	assert.Equal(t, "order/7", found)

	_, err = dedupe.Stamp(nil, "order", "7")
	require.ErrorIs(t, err, onefold.ErrInvalid)
}

// Parts that are split elsewhere are other parts.
func FuzzStableIDsOfDifferentPartsDiffer(f *testing.F) {
	f.Add("a/b", "c", "a", "b/c")
	f.Add("a%2Fb", "c", "a/b", "c")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		one, err1 := dedupe.StableID(a, b)
		two, err2 := dedupe.StableID(c, d)
		if err1 != nil || err2 != nil {
			return
		}
		assert.Equal(t, a == c && b == d, one == two, "%q %q", one, two)
		if joined, err := dedupe.StableID(a + b); err == nil {
			assert.NotEqual(t, one, joined)
		}
		assert.True(t, onefold.IsHeaderValue(one))
	})
}

func ExampleStableID() {
	fmt.Println(dedupe.StableID("order", "7", "created"))
	fmt.Println(dedupe.StableID("order", "7/created"))
	fmt.Println(dedupe.StableID("order", ""))
	// Output:
	// order/7/created <nil>
	// order/7%2Fcreated <nil>
	//  missing id: part 1 of the ID, counted from 0, is ""; give the message an ID when all parts are known
}

func ExampleStamp() {
	header := onefold.Header{} // of a nats.Msg m: onefold.Header(m.Header)
	id, err := dedupe.Stamp(header, "order", "7", "created")
	fmt.Println(id, err)
	fmt.Println(header)
	// Output:
	// order/7/created <nil>
	// map[Nats-Msg-Id:[order/7/created] Onefold-Id:[order/7/created]]
}
