package consumer_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
	"github.com/onefold-go/onefold/store/memstore"
)

func openMemory(testing.TB) onefold.Store { return memstore.New() }

func openBolt(tb testing.TB) onefold.Store {
	st, err := boltstore.Open(filepath.Join(tb.TempDir(), "store"), nil)
	require.NoError(tb, err)
	return st
}
