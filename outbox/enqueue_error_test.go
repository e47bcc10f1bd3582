package outbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/outbox"
)

func TestEnqueueRefusesBadInputAndFailedBuilds(t *testing.T) {
	st := openStore(t)
	broken := errors.New("broken")
	tests := []struct {
		name   string
		st     onefold.Store
		key    onefold.Key
		retain time.Duration
		build  func(*onefold.Effects) error
		want   error
		says   string
	}{
		{"nil store", nil, key("a"), 0, publish("5"), onefold.ErrInvalid, "store is nil; open one"},
		{"nil build", st, key("a"), 0, nil, onefold.ErrInvalid, "build is nil; give"},
		{"no scope", st, onefold.Key{ID: "a"}, 0, publish("5"), onefold.ErrInvalid, "Key.Scope is empty; name"},
		{"blank ID", st, key(" \t"), 0, publish("5"), onefold.ErrInvalid, `Key.ID is " \t"; give`},
		{"negative retention", st, key("a"), -1, publish("5"), onefold.ErrInvalid, "retain is -1ns; it must be positive"},
		{"retention in the wrong unit", st, key("a"), 86400, publish("5"), onefold.ErrInvalid, "retain is 86.4µs; it must be at least 1s, or 0 for 24h0m0s (is the unit right?)"},
		{"failed build", st, key("a"), 0, func(*onefold.Effects) error { return broken }, broken, "enqueue test/a: broken"},
		{"bad subject", st, key("a"), 0, func(fx *onefold.Effects) error { fx.Publish("a b", nil); return nil }, onefold.ErrInvalid, `subject "a b"`},
		{"too large for any server", st, key("a"), 0, func(fx *onefold.Effects) error {
			fx.Publish("out.a", make([]byte, onefold.DefaultMaxPayload))
			return nil
		}, onefold.ErrTooLarge, "send large bodies by reference"},
		{"nothing at all", st, key("a"), 0, func(*onefold.Effects) error { return nil }, onefold.ErrInvalid,
			"build asked for nothing; publish a message, write state or set a result"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := outbox.Enqueue(t.Context(), tt.st, tt.key, tt.retain, tt.build)
			require.ErrorIs(t, err, tt.want)
			assert.Contains(t, err.Error(), tt.says)
		})
	}
	_, err := st.Lookup(t.Context(), key("a"))
	require.ErrorIs(t, err, onefold.ErrNotFound)

	_, err = outbox.Enqueue(t.Context(), nil, onefold.Key{}, -1, nil)
	for _, part := range []string{"store is nil", "build is nil", "Key.Scope", "Key.ID", "retain"} {
		assert.Contains(t, err.Error(), part, "all of them together")
	}
}

func TestEnqueueOfAResultOrAWriteAloneIsSomething(t *testing.T) {
	st := openStore(t)
	for id, build := range map[string]func(*onefold.Effects){
		"result": func(fx *onefold.Effects) { fx.Result([]byte{}) },
		"write":  func(fx *onefold.Effects) { fx.Delete("t", "k") },
	} {
		_, err := outbox.Enqueue(t.Context(), st, key(id), 0, func(fx *onefold.Effects) error { build(fx); return nil })
		require.NoError(t, err, id)
	}
}

func TestAnErrorOfEnqueueNamesTheKeyOnceAndWhatToDo(t *testing.T) {
	st := openStore(t)
	_, err := outbox.Enqueue(t.Context(), st, key("a"), 0, publish("5"))
	require.NoError(t, err)
	_, err = outbox.Enqueue(t.Context(), st, key("a"), 0, publish("6"))
	require.ErrorIs(t, err, onefold.ErrMismatch)
	assert.Contains(t, err.Error(), "the key holds other effects: use another ID for other work")
	assert.Equal(t, 1, strings.Count(err.Error(), "test/a"), err)

	_, err = st.Begin(t.Context(), onefold.Request{Key: key("b"), Lease: time.Minute, Holder: onefold.Holder{Process: 1, Attempt: 1}})
	require.NoError(t, err)
	_, err = outbox.Enqueue(t.Context(), st, key("b"), 0, publish("5"))
	require.ErrorIs(t, err, onefold.ErrBusy)
	assert.Contains(t, err.Error(), "the key is being run: enqueue again when that has ended")
	assert.Equal(t, 1, strings.Count(err.Error(), "test/b"), err)

	closing := &unsure{Store: st, answers: errorQueue{errs: []error{onefold.ErrUnknown, onefold.ErrClosed}}}
	_, err = outbox.Enqueue(t.Context(), closing, key("c"), 0, publish("5"))
	require.ErrorIs(t, err, onefold.ErrUnknown)
	assert.Contains(t, err.Error(), "enqueue test/c: ")
	assert.Contains(t, err.Error(), "enqueue again with the same key")
}

func TestAnErrorOfBuildIsNeverTakenForTheCommits(t *testing.T) {
	st := openStore(t)
	for name, cause := range map[string]error{
		"mismatch": onefold.ErrMismatch, "unknown": onefold.ErrUnknown, "busy": onefold.ErrBusy,
		"permanent conflict": onefold.Permanent(onefold.ErrConflict),
	} {
		runs := 0
		_, err := outbox.Enqueue(t.Context(), st, key("a"), 0, func(*onefold.Effects) error {
			runs++
			return fmt.Errorf("ask elsewhere: %w", cause)
		})
		require.ErrorIs(t, err, cause, name)
		assert.Equal(t, "enqueue test/a: ask elsewhere: "+cause.Error(), err.Error(), name)
		assert.Equal(t, 1, runs, name)
	}
}

func TestBuildKnowsNoFirstAttempt(t *testing.T) {
	_, err := outbox.Enqueue(t.Context(), openStore(t), key("a"), 0, func(fx *onefold.Effects) error {
		assert.True(t, fx.First().IsZero())
		fx.Publish("out.a", nil)
		return nil
	})
	require.NoError(t, err)
}
