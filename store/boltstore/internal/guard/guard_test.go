package guard_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/guard"
)

func ExampleRun() {
	err := guard.Run("read", func() error { panic("page 7: invalid type") })
	fmt.Println(err, errors.Is(err, onefold.ErrDamaged))
	// Output: read: page 7: invalid type true
}

func TestAnErrorIsReturnedAsItIs(t *testing.T) {
	want := errors.New("plain")
	require.Same(t, want, guard.Run("read", func() error { return want }))
	require.NoError(t, guard.Run("read", func() error { return nil }))
}

func TestAFaultOfMemoryIsDamage(t *testing.T) {
	err := guard.Run("read", func() error {
		var p *int
		*p = 1
		return nil
	})
	var p *guard.PanicError
	require.ErrorAs(t, err, &p)
	require.ErrorIs(t, err, onefold.ErrDamaged)
}
