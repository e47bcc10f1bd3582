package onefoldtest

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// set gives a field another value than it has.
func set(t *testing.T, field reflect.Value) {
	t.Helper()
	switch field.Interface().(type) {
	case string:
		field.SetString(field.String() + "x")
	case bool:
		field.SetBool(!field.Bool())
	case []byte:
		field.SetBytes([]byte("x"))
	case time.Duration:
		field.SetInt(field.Int() + 1)
	case time.Time:
		field.Set(reflect.ValueOf(time.Unix(1_900_000_000, 0)))
	case onefold.Header:
		field.Set(reflect.ValueOf(onefold.Header{"A": {"x"}}))
	default:
		require.Fail(t, "a field of a new type", "%v", field.Type())
	}
}

// A field that is added to what a handler can ask for is compared, or named here with the reason.
func TestEverythingThatAHandlerCanAskForIsCompared(t *testing.T) {
	left := map[string]string{
		"NotBefore": "a delay may count from the run",
	}
	for what, c := range map[string]struct {
		first any
		ask   func(reflect.Value) onefold.Entry
	}{
		"effect": {onefold.Effect{Kind: onefold.KindMessage, Target: "out"}, func(v reflect.Value) onefold.Entry {
			return onefold.Entry{Effects: []onefold.Effect{v.Interface().(onefold.Effect)}}
		}},
		"write": {onefold.Write{Table: "t", Key: "k"}, func(v reflect.Value) onefold.Entry {
			return onefold.Entry{Writes: []onefold.Write{v.Interface().(onefold.Write)}}
		}},
	} {
		first := reflect.ValueOf(c.first)
		for i := range first.NumField() {
			again := reflect.New(first.Type()).Elem()
			again.Set(first)
			set(t, again.Field(i))
			was, is := c.ask(first), c.ask(again)
			difference := diff(linesOf(&was), linesOf(&is))
			name := first.Type().Field(i).Name
			assert.Equal(t, left[name] == "", difference != "", "%s, field %s", what, name)
		}
	}
	was, is := onefold.Entry{}, onefold.Entry{Result: []byte("x")}
	assert.NotEmpty(t, diff(linesOf(&was), linesOf(&is)))
}
