//go:build !unix || solaris || aix

package boltstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
)

// lockElsewhere locks a file as another process would.
func lockElsewhere(t *testing.T, path string) (release func()) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	return func() { require.NoError(t, db.Close()) }
}
