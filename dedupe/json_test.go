package dedupe_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

func TestScenario_K01_EqualJSONInAnotherOrderHasOneFingerprintInJSONModeOnly(t *testing.T) {
	tests := []struct{ name, a, b string }{
		{"fields in another order", `{"id":1,"cents":5}`, `{"cents":5,"id":1}`},
		{"nested fields in another order", `{"o":{"id":1,"lines":[{"a":1,"b":2}]}}`, `{"o":{"lines":[{"b":2,"a":1}],"id":1}}`},
		{"blanks", `{"id":1}`, "{\n\t\"id\" : 1 }\n"},
		{"escapes", `{"name":"a\u00e9\/<"}`, "{\"name\":\"a\u00e9/\\u003c\"}"},
		{"at the top", ` [1,null,true] `, `[1, null, true]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := message("s", tt.a), message("s", tt.b)
			assert.Equal(t, dedupe.SubjectAndJSON(a), dedupe.SubjectAndJSON(b))
			assert.Equal(t, dedupe.JSONOnly(a), dedupe.JSONOnly(b))
			assert.Equal(t, dedupe.JSONFingerprint("r", a.Data), dedupe.JSONFingerprint("r", b.Data))
			assert.True(t, dedupe.SubjectAndBody(a).Conflicts(dedupe.SubjectAndBody(b)), "raw")
		})
	}
}

func TestJSONThatSaysSomethingElseConflicts(t *testing.T) {
	tests := []struct{ name, a, b string }{
		{"value", `{"a":1}`, `{"a":2}`},
		{"name", `{"a":1}`, `{"b":1}`},
		{"numbers beyond a double", `9007199254740993`, `9007199254740992`},
		{"small digits", `0.1000000000000000055`, `0.1`},
		{"how a number is written", `1`, `1.0`},
		{"type", `{"a":1}`, `{"a":"1"}`},
		{"null and absent", `{"a":null}`, `{}`},
		{"order of an array", `[1,2]`, `[2,1]`},
		{"nesting of arrays", `[[1],2]`, `[[1,2]]`},
		{"a field in another object", `{"a":{"b":1},"c":{}}`, `{"a":{},"c":{"b":1}}`},
		{"text moved between fields", `{"a":"xy","b":""}`, `{"a":"x","b":"y"}`},
		{"a name twice, the last counts for some", `{"a":1,"a":2}`, `{"a":2}`},
		{"a name twice, written otherwise", `{"a":1,"\u0061":2}`, `{"a":2}`},
		{"surrogates that some mend", `"\ud800"`, `"\ud801"`},
		{"bytes that are no text", "\"\xff\"", "\"\xfe\""},
		{"no JSON, bytes differ", `{"a":1`, `{"a":1,`},
		{"JSON with more behind it", `{"a":1}{}`, `{"a":1}`},
		{"empty and null", ``, `null`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := message("s", tt.a), message("s", tt.b)
			assert.True(t, dedupe.SubjectAndJSON(a).Conflicts(dedupe.SubjectAndJSON(b)))
			assert.Equal(t, dedupe.SubjectAndJSON(a), dedupe.SubjectAndJSON(message("s", tt.a)), "pure")
		})
	}
}

func TestTheSubjectCountsInSubjectAndJSONAlone(t *testing.T) {
	a, b := message("s.a", `{}`), message("s.b", `{}`)
	assert.True(t, dedupe.SubjectAndJSON(a).Conflicts(dedupe.SubjectAndJSON(b)))
	assert.Equal(t, dedupe.JSONOnly(a), dedupe.JSONOnly(b))
}

func TestVeryDeepJSONIsCoveredAsBytes(t *testing.T) {
	for _, depth := range []int{900, 1100, 9_000, 100_000} {
		deep := func(inner string) *onefold.Message {
			return message("s", strings.Repeat("[", depth)+inner+strings.Repeat("]", depth))
		}
		assert.Equal(t, dedupe.JSONOnly(deep("1")), dedupe.JSONOnly(deep("1")), depth)
		assert.True(t, dedupe.JSONOnly(deep("1")).Conflicts(dedupe.JSONOnly(deep("2"))), depth)
	}
}

// The sums are stored: they must stay what they are for ever.
func TestStoredFingerprintsOfJSONNeverChange(t *testing.T) {
	m := message("orders.new", `{"id":1,"text":"é","list":[true,false,null,1.50],"in":{"b":2,"a":"x"}}`)
	assert.Equal(t, "v3:9e87991dae7f6b8b6c7525bdbdf5af02", dedupe.SubjectAndJSON(m).String())
	assert.Equal(t, "v4:94d52404d4c0da0e3d880ed059daa54c", dedupe.JSONOnly(m).String())
	assert.Equal(t, "v4:c0d9dcabbfe125b42e06337717ab6b2f", dedupe.JSONOnly(message("", "no JSON")).String())
	only, err := dedupe.OnlyFields("/id", "/in/a")
	require.NoError(t, err)
	assert.Equal(t, "v100:f5ec50f75f0768219d45340b0cdcf8b4", only.SubjectAndJSON(m).String())
	assert.Equal(t, "v101:4f472cee662e63a52f2864b1b5add6c1", only.JSONOnly(m).String())
	assert.Equal(t, "v101:a91476079f098afc4d80930579ea5e2e", only.JSONOnly(message("", "{}")).String())
	without, err := dedupe.WithoutFields("/list", "/in/a")
	require.NoError(t, err)
	assert.Equal(t, "v113:8ff59956a370a734b25dea8af5aee5bc", without.SubjectAndJSON(m).String())
}

func FuzzJSONFingerprints(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{"b":null}]}`, `{"a":1,"a":2}`, `[`, ``, `"\ud800"`} {
		f.Add([]byte(seed), []byte(seed))
	}
	only, err := dedupe.OnlyFields("/a", "/b/c")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, y := &onefold.Message{Data: a}, &onefold.Message{Data: b}
		for _, of := range []dedupe.Fingerprinter{dedupe.JSONOnly, only.JSONOnly} {
			require.Equal(t, of(x), of(&onefold.Message{Data: a}))
			require.NotZero(t, of(x).Version)
		}
		if dedupe.JSONOnly(x) == dedupe.JSONOnly(y) {
			require.Equal(t, only.JSONOnly(x), only.JSONOnly(y), "equal bodies have equal parts")
		}
	})
}
