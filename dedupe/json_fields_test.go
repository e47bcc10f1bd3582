package dedupe_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/store/memstore"
)

func only(t *testing.T, paths ...string) *dedupe.Fields {
	t.Helper()
	f, err := dedupe.OnlyFields(paths...)
	require.NoError(t, err)
	return f
}

func without(t *testing.T, paths ...string) *dedupe.Fields {
	t.Helper()
	f, err := dedupe.WithoutFields(paths...)
	require.NoError(t, err)
	return f
}

func TestScenario_K05_WhatIsStoredAndWhatIsCheckedIsOneSelectionAndAChangedOneHasAnotherVersion(t *testing.T) {
	st := memstore.New()
	t.Cleanup(func() { require.NoError(t, st.Close(t.Context())) })
	g := newGuard(t, st)
	selection := only(t, "/order", "/cents")
	pay := func(f *dedupe.Fields, body string) error {
		_, err := g.Do(t.Context(), "p-1", f.JSONFingerprint("POST /pay", []byte(body)), answer(new(int), "paid"))
		return err
	}
	require.NoError(t, pay(selection, `{"order":7,"cents":5,"at":"12:00"}`))
	record, err := st.Lookup(t.Context(), g.Key("p-1"))
	require.NoError(t, err)
	assert.Equal(t, selection.Version(), record.Fingerprint.Version)

	require.NoError(t, pay(selection, `{"order":7,"cents":5,"at":"12:05"}`), "what is not selected is neither stored nor checked")
	require.ErrorIs(t, pay(selection, `{"order":7,"cents":6,"at":"12:00"}`), onefold.ErrMismatch)

	changed := only(t, "/order", "/cents", "/currency")
	assert.NotEqual(t, selection.Version(), changed.Version())
	require.NoError(t, pay(changed, `{"order":7,"cents":5,"currency":"EUR"}`), "a deploy that changes the selection mismatches nothing")
}

func TestTheVersionDependsOnTheSelectionAlone(t *testing.T) {
	a := only(t, "/order", "/cents")
	assert.Equal(t, a.Version(), only(t, "/cents", "/order").Version(), "not on the order")
	assert.NotEqual(t, a.Version(), without(t, "/order", "/cents").Version())
	assert.NotEqual(t, a.Version(), only(t, "/order/cents").Version())
	m := message("s", `{"order":1}`)
	assert.NotEqual(t, a.SubjectAndJSON(m).Version, a.JSONOnly(m).Version)
	assert.Equal(t, a.Version(), a.SubjectAndJSON(m).Version)
	for _, path := range []string{"/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h"} {
		assert.GreaterOrEqual(t, only(t, path).Version(), dedupe.FirstUserVersion)
		assert.GreaterOrEqual(t, only(t, path).JSONOnly(m).Version, dedupe.FirstUserVersion)
	}
}

func TestScenario_K06_ANestedSelectionWorksOrFailsAtTheStart(t *testing.T) {
	const a = `{"order":{"id":1,"at":"12:00","lines":[{"sku":"x","seen":1},{"sku":"y"}]},"trace":"t1"}`
	tests := []struct {
		name      string
		f         *dedupe.Fields
		b         string
		conflicts bool
	}{
		{"only: the field", only(t, "/order/id"), `{"order":{"id":2}}`, true},
		{"only: its neighbours", only(t, "/order/id"), `{"order":{"id":1,"at":"13:00"},"trace":"t2"}`, false},
		{"only: a field of that name elsewhere", only(t, "/order/id"), `{"id":1}`, true},
		{"only: in each element", only(t, "/order/lines/sku"), `{"order":{"lines":[{"sku":"x","seen":2},{"sku":"y","seen":3}]}}`, false},
		{"only: in another element", only(t, "/order/lines/sku"), `{"order":{"lines":[{"sku":"y"},{"sku":"x"}]}}`, true},
		{"only: one element more", only(t, "/order/lines/sku"), `{"order":{"lines":[{"sku":"x"},{"sku":"y"},{}]}}`, true},
		{"only: the value where an object was", only(t, "/order/id"), `{"order":1}`, true},
		{"only: absent and null", only(t, "/order/id", "/note"), `{"order":{"id":1},"note":null}`, true},
		{"only: all that is in it", only(t, "/order"), `{"order":{"id":1,"at":"12:00","lines":[{"sku":"x","seen":2},{"sku":"y"}]}}`, true},
		{"without: the fields", without(t, "/order/at", "/trace", "/order/lines/seen"), `{"order":{"lines":[{"sku":"x"},{"sku":"y","seen":9}],"id":1,"at":"13:00"}}`, false},
		{"without: another field", without(t, "/order/at", "/trace"), `{"order":{"id":2,"lines":[{"sku":"x","seen":1},{"sku":"y"}]}}`, true},
		{"without: a field of that name elsewhere", without(t, "/order/at"), `{"at":"12:00","order":{"id":1,"lines":[{"sku":"x","seen":1},{"sku":"y"}]},"trace":"t1"}`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.conflicts, tt.f.JSONOnly(message("s", a)).Conflicts(tt.f.JSONOnly(message("s", tt.b))))
		})
	}

	for _, tt := range []struct {
		name  string
		paths []string
		says  string
	}{
		{"none", nil, "no path"},
		{"without a slash", []string{"order.id"}, `"order.id" does not start with a slash`},
		{"empty", []string{""}, "does not start with a slash"},
		{"empty name", []string{"/order//id"}, "empty name"},
		{"slash at the end", []string{"/order/"}, "empty name"},
		{"wrong escape", []string{"/a~2"}, "~0"},
		{"tilde at the end", []string{"/a~"}, "~0"},
		{"no UTF-8", []string{"/\xff"}, "UTF-8"},
		{"twice", []string{"/a", "/a"}, "is covered"},
		{"one in another", []string{"/a/b", "/a"}, `"/a/b" is covered`},
	} {
		t.Run("refused: "+tt.name, func(t *testing.T) {
			for _, make := range []func(...string) (*dedupe.Fields, error){dedupe.OnlyFields, dedupe.WithoutFields} {
				_, err := make(tt.paths...)
				require.ErrorIs(t, err, onefold.ErrInvalid)
				assert.ErrorContains(t, err, tt.says)
			}
		})
	}
}

func TestABodyWithNoneOfTheSelectedFieldsIsCoveredWhole(t *testing.T) {
	f := only(t, "/order/id")
	for _, pair := range [][2]string{{`{"a":1}`, `{"a":2}`}, {`no JSON`, `no JSON!`}, {`[]`, `{}`}, {`{"order":{}}`, `{"order":[]}`}} {
		assert.True(t, f.JSONOnly(message("s", pair[0])).Conflicts(f.JSONOnly(message("s", pair[1]))), pair)
	}
	assert.Equal(t, f.JSONOnly(message("s", `{"a":1,"b":2}`)), f.JSONOnly(message("s", `{"b":2,"a":1}`)))
}

func TestNamesWithSlashesAndTildesCanBeSelected(t *testing.T) {
	f := only(t, "/a~1b/c~0d~01")
	assert.True(t, f.JSONOnly(message("s", `{"a/b":{"c~d~1":1,"e":1}}`)).Conflicts(f.JSONOnly(message("s", `{"a/b":{"c~d~1":2,"e":1}}`))))
	assert.Equal(t, f.JSONOnly(message("s", `{"a/b":{"c~d~1":1,"e":1}}`)), f.JSONOnly(message("s", `{"a/b":{"c~d~1":1,"e":2}}`)))
}

func TestScenario_K07_VolatileFieldsMakeNoMessageUnique(t *testing.T) {
	f := without(t, "/sentAt", "/meta/requestId")
	first := message("orders.new", `{"id":"o-1","cents":5,"sentAt":"12:00:00","meta":{"requestId":"r-1","tenant":"a"}}`)
	retry := message("orders.new", `{"id":"o-1","cents":5,"sentAt":"12:00:09","meta":{"requestId":"r-2","tenant":"a"}}`)
	other := message("orders.new", `{"id":"o-1","cents":6,"sentAt":"12:00:00","meta":{"requestId":"r-1","tenant":"a"}}`)
	assert.Equal(t, f.SubjectAndJSON(first), f.SubjectAndJSON(retry))
	assert.True(t, f.SubjectAndJSON(first).Conflicts(f.SubjectAndJSON(other)))
	assert.True(t, dedupe.SubjectAndJSON(first).Conflicts(dedupe.SubjectAndJSON(retry)), "the default takes them for two")
}
