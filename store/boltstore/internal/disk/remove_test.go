package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold/store/boltstore/internal/disk"
)

func TestAFileIsRemovedWhateverItsSizeAndWhateverStopsIt(t *testing.T) {
	stopped := errors.New("stopped")
	for _, size := range []int{0, 1, 2 << 20, 5 << 20} {
		for _, stop := range []error{nil, stopped} {
			path := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(path, make([]byte, size), 0o600))
			require.NoError(t, disk.Remove(path, func() error {
				assert.NoFileExists(t, path, "the name goes first")
				return stop
			}))
			assert.NoFileExists(t, path)
		}
	}
	require.ErrorIs(t, disk.Remove(filepath.Join(t.TempDir(), "none"), nil), os.ErrNotExist)
}

func TestAFileWithAnotherNameKeepsWhatItHas(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(path, make([]byte, 5<<20), 0o600))
	require.NoError(t, os.Link(path, link))
	require.NoError(t, disk.Remove(path, func() error { return nil }))
	assert.NoFileExists(t, path)
	info, err := os.Stat(link)
	require.NoError(t, err)
	assert.EqualValues(t, 5<<20, info.Size())
}

func TestAnErrorOfWritingBackIsNotSwallowed(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	_, err = f.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, disk.WriteBack(f, 1<<20, 1<<10))
	require.NoError(t, disk.WriteBack(f, 1<<20, 1<<21))
	require.NoError(t, f.Close())
	require.Error(t, disk.WriteBack(f, 1<<20, 1<<10))
}
