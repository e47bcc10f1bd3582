package boltstore_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// paths are several that lead to a directory.
func paths(t *testing.T, dir string) []string {
	t.Helper()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	work, err := os.Getwd()
	require.NoError(t, err)
	relative, err := filepath.Rel(work, dir)
	require.NoError(t, err)
	return []string{dir, link, relative, filepath.Join(dir, "sealed") + "/.."}
}

func TestScenario_B10_ASecondOpenInOneProcessIsRefusedByWhateverPath(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	for _, path := range paths(t, dir) {
		for _, wait := range []time.Duration{-1, time.Millisecond} {
			_, err := boltstore.Open(path, &boltstore.Options{LockWait: wait})
			require.ErrorIs(t, err, onefold.ErrInUse)
			absolute, absErr := filepath.Abs(path)
			require.NoError(t, absErr)
			assert.ErrorContains(t, err, absolute)
			assert.ErrorContains(t, err, "LockWait")
		}
	}
	commit(t, s, key("a"))
	require.NoError(t, s.Close(context.Background()))
}

func TestScenario_B10_AnOpenInAnotherProcessIsRefusedByWhateverPath(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" {
		for _, path := range paths(t, dir) {
			_, err := boltstore.Open(path, &boltstore.Options{LockWait: time.Millisecond})
			require.ErrorIs(t, err, onefold.ErrInUse)
		}
		return
	}
	dir := t.TempDir()
	open(t, dir, nil)
	child := exec.Command(os.Args[0], "-test.run", "^TestScenario_B10_AnOpenInAnotherProcessIsRefusedByWhateverPath$", "-test.v")
	child.Env = append(os.Environ(), childDir+"="+dir)
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "--- PASS")
}
