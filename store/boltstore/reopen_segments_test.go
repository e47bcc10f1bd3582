package boltstore_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// crash ends the store as the death of its process would, and opens it again.
func (s *sealer) crash() {
	s.t.Helper()
	require.NoError(s.t, s.Crash())
	s.open()
}

// kept reports which files of the closed store have this text anywhere.
func (s *sealer) kept(text string) (files []string) {
	s.t.Helper()
	for _, path := range append(s.files(""), filepath.Join(s.dir, "main.db")) {
		b, err := os.ReadFile(path)
		require.NoError(s.t, err)
		if strings.Contains(string(b), text) {
			files = append(files, filepath.Base(path))
		}
	}
	return files
}

func TestAMainFilePutBackByMistakeTakesNoFileOfTheRightOneWithIt(t *testing.T) {
	s := newSealer(t)
	s.fill(350)
	require.NoError(t, s.Close(context.Background()))
	path := filepath.Join(s.dir, "main.db")
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	s.open()
	mark, err := os.ReadFile(filepath.Join(s.dir, "STORE"))
	require.NoError(t, err)
	require.NoError(t, s.Erase(context.Background(), numbered(50)))
	s.clock.Advance(time.Minute)
	s.KeepUp() // writes a segment anew and moves no position beyond the old ones
	require.NoError(t, s.Crash())
	right, err := os.ReadFile(path)
	require.NoError(t, err)
	files := s.files("")

	write(t, path, string(old))
	require.NoError(t, os.Remove(filepath.Join(s.dir, "STORE")))
	_, err = boltstore.Open(s.dir, s.o)
	require.ErrorIs(t, err, onefold.ErrDamaged)
	assert.ElementsMatch(t, files, s.files(""))

	write(t, path, string(right))
	write(t, filepath.Join(s.dir, "STORE"), string(mark))
	s.open()
	s.holds(0, 50)
	s.holds(51, 350)
}

func TestAMarkThatWasNotNeededDoesNotKeepItsSegmentAtWork(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	s.fill(90)
	s.clock.Advance(10 * time.Minute) // the segment is old
	s.fill(91)                        // and frozen before this is written
	require.NoError(t, s.Erase(ctx, numbered(5)))
	s.crash() // its records are in the growing segment again, the mark beside them
	s.clock.Advance(2 * time.Hour)
	e := entry(numbered(5))
	batch := one(nil, e)
	require.NoError(t, s.Commit(ctx, batch)) // the expired record makes room for this one
	require.NoError(t, batch[0].Err)
	s.next = 91
	s.fill(400)
	s.clock.Advance(time.Minute)
	s.KeepUp()
	before := s.files("")
	s.clock.Advance(time.Minute)
	s.KeepUp()
	assert.Equal(t, before, s.files(""), "nothing is left to do")
	assert.Zero(t, s.Storage().Erased)
}

func TestAnErasureFindsAllRecordsOfItsKeyAfterAReopen(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	put(t, s.Store, key("alice"), "first secret")
	s.clock.Advance(2 * time.Hour)
	s.fill(1) // freezes what is old
	put(t, s.Store, key("alice"), "second secret")
	s.crash()
	require.NoError(t, s.Erase(ctx, key("alice")))
	s.fill(250)
	s.KeepUp()
	require.NoError(t, s.Close(ctx))
	_, _, err := boltstore.Compact(ctx, s.dir)
	require.NoError(t, err)
	assert.Empty(t, s.kept("alice"))
	assert.Empty(t, s.kept("secret"))
	s.open()
	g, err := s.Begin(ctx, request(key("alice")))
	require.NoError(t, err)
	assert.Equal(t, onefold.Done, g.Verdict)
	assert.True(t, g.Record.Erased)
}

func TestAStoreGoesOnWhenTheProgramChangesItsDirectory(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home)
	s := open(t, "data", nil)
	commit(t, s, key("a"))
	t.Chdir(t.TempDir())
	s.LookAfterFile()
	commit(t, s, key("b"))
	require.NoError(t, s.Close(context.Background()))
	assert.FileExists(t, filepath.Join(home, "data", "main.db"))
}

func TestARestoreThatWasCutShortIsNoStore(t *testing.T) {
	s := newSealer(t)
	s.fill(150)
	require.NoError(t, s.Close(context.Background()))
	write(t, filepath.Join(s.dir, "RESTORING"), "")
	_, err := boltstore.Open(s.dir, s.o)
	require.ErrorIs(t, err, onefold.ErrNotStore)
	require.ErrorContains(t, err, "restore")
}

func TestAMainFileFromBeforeAnErasureIsToldFromTheOneThatWasClosed(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	s.fill(10)
	path := filepath.Join(s.dir, "main.db")
	old, err := os.ReadFile(path) // nothing is being written
	require.NoError(t, err)
	require.NoError(t, s.Erase(ctx, numbered(3)))
	require.NoError(t, s.Close(ctx))
	write(t, path, string(old))
	_, err = boltstore.Open(s.dir, s.o)
	require.ErrorIs(t, err, onefold.ErrDamaged)
	require.ErrorContains(t, err, "older copy")
}
