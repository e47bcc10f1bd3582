package safecall_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/safecall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outcome runs f in a goroutine of its own and returns what its deferred function saw.
func outcome(f func() error) (err error, returned bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		var call safecall.Call
		defer func() { err = call.Err() }()
		_ = call.Do(f)
		returned = true
	}()
	<-done
	return err, returned
}

func TestEveryWayToEndIsTold(t *testing.T) {
	plain := errors.New("plain")
	var nothing map[string]int
	tests := []struct {
		name     string
		f        func() error
		text     string // "" means nil
		is       error
		returned bool
	}{
		{"nil", func() error { return nil }, "", nil, true},
		{"error", func() error { return plain }, "plain", plain, true},
		{"panic with a string", func() error { panic("boom") }, "handler panicked: boom", nil, true},
		{"panic with an error is unwrapped", func() error { panic(plain) }, "handler panicked: plain", plain, true},
		{"panic of the runtime", func() error { nothing["a"] = 1; return nil },
			"handler panicked: assignment to entry in nil map", nil, true},
		{"panic(nil)", func() error { panic(nil) }, //nolint:govet // the case under test
			"handler panicked: panic called with nil argument", nil, true},
		{"Goexit", func() error { runtime.Goexit(); return nil }, "handler called runtime.Goexit", onefold.ErrGoexit, false},
		{"Goexit from a deferred function of a panic", func() error {
			defer runtime.Goexit()
			panic("overtaken")
		}, "handler called runtime.Goexit", onefold.ErrGoexit, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err, returned := outcome(tt.f)
			assert.Equal(t, tt.returned, returned)
			if tt.text == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.text)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
		})
	}
}

func TestPanicKeepsABoundedStackThatNamesTheCulprit(t *testing.T) {
	var call safecall.Call
	err := call.Do(func() error { return descend(1000) })
	var p *onefold.PanicError
	require.ErrorAs(t, err, &p)
	assert.Equal(t, "bottom", p.Value)
	assert.LessOrEqual(t, len(p.Stack), onefold.MaxStackBytes)
	assert.True(t, bytes.Contains(p.Stack, []byte("descend")))
	assert.False(t, strings.Contains(err.Error(), "goroutine"), "the text has no stack")
}

func descend(n int) error {
	if n == 0 {
		panic("bottom")
	}
	return descend(n - 1)
}

func TestACallStartsAnewEachTime(t *testing.T) {
	var call safecall.Call
	require.NoError(t, call.Err())
	require.False(t, call.Goexit(), "nothing has been called")
	require.Error(t, call.Do(func() error { panic(1) }))
	require.NoError(t, call.Do(func() error { return nil }))
	require.NoError(t, call.Err())
	require.False(t, call.Goexit())
}

func TestTheNormalPathAllocatesNothing(t *testing.T) {
	f := func() error { return nil }
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		var call safecall.Call
		_ = call.Do(f)
	}))
}

func ExampleCall() {
	work := func(f func() error) (err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			var call safecall.Call
			defer func() { err = call.Err() }()
			_ = call.Do(f)
		}()
		<-done
		return err
	}
	fmt.Println(work(func() error { return nil }))
	fmt.Println(work(func() error { panic("no such order") }))
	fmt.Println(work(func() error { runtime.Goexit(); return nil }))
	// Output:
	// <nil>
	// handler panicked: no such order
	// handler called runtime.Goexit
}
