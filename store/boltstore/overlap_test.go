package boltstore_test

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold/store/boltstore"
)

// TestABackupThatIsReadSlowlyIsWholeAlthoughTheNextStoreRemovesItsFiles lets a backup outlive Close. The store that is opened
// then has shelves of its own, and does not know who reads the files that end.
func TestABackupThatIsReadSlowlyIsWholeAlthoughTheNextStoreRemovesItsFiles(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	s.fill(550)
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	old := s.Store
	go func() { ended <- old.Backup(ctx, writer) }()
	first := make([]byte, 1)
	_, err := io.ReadFull(reader, first) // all files are open
	require.NoError(t, err)
	s.reopen()  // Close does not wait for the reader
	s.fill(950) // indexes are merged
	all := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(reader)
		all <- append(first, b...)
	}()
	require.NoError(t, <-ended)
	require.NoError(t, writer.Close())
	dir := filepath.Join(t.TempDir(), "restored")
	require.NoError(t, boltstore.Restore(ctx, bytes.NewReader(<-all), dir))
}
