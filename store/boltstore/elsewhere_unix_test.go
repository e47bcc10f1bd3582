//go:build unix && !solaris && !aix

package boltstore_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// lockElsewhere locks a file as another process would.
func lockElsewhere(t *testing.T, path string) (release func()) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	return func() { require.NoError(t, f.Close()) }
}
