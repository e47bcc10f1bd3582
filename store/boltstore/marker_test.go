package boltstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

// copyOf reads a file.
func copyOf(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

func TestOlderCopyOfTheMainFileIsRefused(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name, says string
		// newer does something to the store after its main file was copied.
		newer func(t *testing.T, dir string, s *Store)
	}{
		{"from before the last close", "its last position is", func(t *testing.T, _ string, s *Store) {
			require.NoError(t, stored(t, s, entryOf("b")))
			require.NoError(t, s.Close(ctx))
		}},
		{"from before the last open", "it was last opened in epoch 1 and the directory in epoch 2", func(t *testing.T, dir string, s *Store) {
			require.NoError(t, s.Close(ctx))
			s = opened(t, dir, nil)
			require.NoError(t, stored(t, s, entryOf("b")))
			require.NoError(t, s.Crash())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := opened(t, dir, nil)
			require.NoError(t, stored(t, s, entryOf("a")))
			older := copyOf(t, mainPath(dir))
			c.newer(t, dir, s)
			newer := copyOf(t, mainPath(dir))
			require.NoError(t, os.WriteFile(mainPath(dir), older, 0o600))
			for range 2 {
				_, err := Open(dir, nil)
				require.ErrorIs(t, err, onefold.ErrDamaged)
				assert.ErrorContains(t, err, "main.db is an older copy")
				assert.ErrorContains(t, err, c.says)
				assert.ErrorContains(t, err, "restore a whole backup")
			}
			require.NoError(t, os.WriteFile(mainPath(dir), newer, 0o600))
			s = opened(t, dir, nil)
			_, err := s.Lookup(ctx, ofID("b"))
			require.NoError(t, err)
		})
	}
}

func TestBackupThatIsWholeOpensHoweverOld(t *testing.T) {
	ctx := context.Background()
	dir, backup := t.TempDir(), t.TempDir()
	s := opened(t, dir, nil)
	require.NoError(t, stored(t, s, entryOf("a")))
	require.NoError(t, s.Close(ctx))
	copyStore(t, dir, backup)
	for range 2 {
		s = opened(t, dir, nil)
		require.NoError(t, stored(t, s, entryOf(fmt.Sprint("later", s.info.Epoch))))
		require.NoError(t, s.Close(ctx))
	}
	copyStore(t, backup, dir)
	s = opened(t, dir, nil)
	assert.True(t, s.Info().Clean)
	assert.Equal(t, uint64(2), s.Info().Epoch)
}

func TestMarkFollowsTheStore(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := opened(t, dir, nil)
	mark := func() storeMark {
		m, marked, err := readStoreMark(dir)
		require.NoError(t, err)
		require.True(t, marked)
		require.Equal(t, uint32(FormatVersion), m.format)
		require.Equal(t, s.info.ID, m.id)
		return m
	}
	assert.Equal(t, uint64(1), mark().epoch)
	assert.False(t, mark().closed)
	require.NoError(t, stored(t, s, entryOf("a")))
	require.NoError(t, s.Close(ctx))
	assert.True(t, mark().closed)
	assert.Equal(t, s.head.position, mark().position)

	s = opened(t, dir, nil)
	assert.Equal(t, uint64(2), mark().epoch)
	assert.False(t, mark().closed)
	require.NoError(t, s.Crash())
	assert.False(t, mark().closed, "nobody knows how far it came")

	require.NoError(t, os.Remove(filepath.Join(dir, storeFile)))
	s = opened(t, dir, nil)
	assert.Equal(t, uint64(3), mark().epoch, "the identity is in the main file, so the mark is made anew")
}

func TestBothMetaPagesHaveToBeWhole(t *testing.T) {
	for _, marked := range []bool{true, false} {
		for meta := range 2 {
			t.Run(fmt.Sprintf("page %d, with its mark: %v", meta, marked), func(t *testing.T) {
				c := newCopied(t)
				dir := t.TempDir()
				c.file[meta*os.Getpagesize()+pageHeadLen+48] ^= 1 // the number of the transaction
				require.NoError(t, os.WriteFile(mainPath(dir), c.file, 0o600))
				if marked {
					require.NoError(t, os.WriteFile(filepath.Join(dir, storeFile), c.mark, 0o600))
				}
				_, err := Open(dir, nil)
				require.ErrorIs(t, err, onefold.ErrDamaged)
				assert.ErrorContains(t, err, "the last commit may be missing")
				assert.Equal(t, c.file, copyOf(t, mainPath(dir)), "not a byte is written")
			})
		}
	}
}

func TestStoreOfAnOlderFormatThatHasBeenRaisedIsNotGivenBack(t *testing.T) {
	dir, older := t.TempDir(), t.TempDir()
	copyStore(t, goldenDir(1), dir)
	copyStore(t, goldenDir(1), older)
	s := opened(t, dir, &Options{Clock: goldenClock()})
	require.NoError(t, s.Close(context.Background()))
	// The main file alone is put back as it was before.
	require.NoError(t, os.WriteFile(mainPath(dir), copyOf(t, mainPath(older)), 0o600))
	_, err := Open(dir, nil)
	require.ErrorIs(t, err, onefold.ErrDamaged)
	assert.ErrorContains(t, err, "older copy")
}

func TestRaisingTheFormatListsWhatNeedsAPerson(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	copyStore(t, goldenDir(1), dir)
	for range 2 {
		s := opened(t, dir, &Options{Clock: goldenClock()})
		st, err := s.Stats(ctx)
		require.NoError(t, err)
		assert.Equal(t, uint64(2), st.Attention, "a dead letter and a parked row")
		require.NoError(t, s.Close(ctx))
	}
	s := opened(t, dir, &Options{Clock: goldenClock()})
	require.NoError(t, s.Erase(ctx, longKey()))
	st, err := s.Stats(ctx)
	require.NoError(t, err)
	assert.Equal(t, uint64(1), st.Attention)
}
