package boltstore_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

func TestCloseDoesNotWaitForWhoeverReadsABackup(t *testing.T) {
	s := newSealer(t)
	s.fill(150)
	reader, writer := io.Pipe()
	ended := make(chan error)
	go func() { ended <- s.Backup(context.Background(), writer) }()
	_, err := reader.Read(make([]byte, 1)) // all files are open
	require.NoError(t, err)
	require.NoError(t, s.Close(context.Background()))
	require.NoError(t, reader.Close())
	require.ErrorIs(t, <-ended, io.ErrClosedPipe)
}

func TestADirectoryMayHaveAnyName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `a[b`)
	s := open(t, dir, nil)
	commit(t, s, key("a"))
	require.NoError(t, s.Close(context.Background()))
	write(t, filepath.Join(dir, "backup-1"), "left by a crash")
	open(t, dir, nil)
	assert.NoFileExists(t, filepath.Join(dir, "backup-1"))
}

func TestABackupIsUnpackedByTarToo(t *testing.T) {
	s := newSealer(t)
	s.fill(250)
	var b bytes.Buffer
	require.NoError(t, s.Backup(context.Background(), &b))
	dir, archive := t.TempDir(), tar.NewReader(&b)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sealed"), 0o700))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		all, err := io.ReadAll(archive)
		require.NoError(t, err)
		write(t, filepath.Join(dir, h.Name), string(all))
	}
	copied := &sealer{t: t, dir: dir, clock: s.clock, o: s.o}
	copied.open()
	copied.holds(0, 250)
}

func TestRestoreRefusesWhatIsNoBackup(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	s.fill(150)
	var b bytes.Buffer
	require.NoError(t, s.Backup(ctx, &b))
	foreign := func(name string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Size: 1, Mode: 0o600}))
		_, err := w.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	flipped := bytes.Clone(b.Bytes())
	flipped[bytes.Index(flipped, []byte(numbered(3).ID))] ^= 1
	for _, c := range []struct {
		name    string
		archive []byte
		want    error
	}{
		{"cut off", b.Bytes()[:b.Len()/2], io.ErrUnexpectedEOF},
		{"empty", nil, onefold.ErrNotStore},
		{"text", bytes.Repeat([]byte("hello "), 200), onefold.ErrNotStore},
		{"climbing out", foreign("sealed/../../x.seg"), onefold.ErrNotStore},
		{"another file", foreign("etc/passwd"), onefold.ErrNotStore},
		{"damaged", flipped, onefold.ErrDamaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "restored")
			require.ErrorIs(t, boltstore.Restore(ctx, bytes.NewReader(c.archive), dir), c.want)
			_, err := boltstore.Open(dir, s.o)
			require.Error(t, err, "what is left is no store")
		})
	}
	require.ErrorIs(t, boltstore.Restore(ctx, bytes.NewReader(b.Bytes()), s.dir), onefold.ErrNotStore, "a store is there")
	require.ErrorIs(t, boltstore.Restore(ctx, bytes.NewReader(b.Bytes()), ""), onefold.ErrInvalid)
}

func TestABackupEndsWithItsContextAndWithItsWriter(t *testing.T) {
	s := newSealer(t)
	s.fill(150)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, s.Backup(ctx, io.Discard), context.Canceled)
	broken := errors.New("broken pipe")
	require.ErrorIs(t, s.Backup(context.Background(), failing{broken}), broken)
	s.fill(160)
	require.NoError(t, s.Close(context.Background()))
	require.ErrorIs(t, s.Backup(context.Background(), io.Discard), onefold.ErrClosed)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestCheckNamesTheFileThatIsDamaged(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	s.fill(350)
	_, err := boltstore.Check(ctx, s.dir)
	require.ErrorIs(t, err, onefold.ErrInUse)
	require.NoError(t, s.Close(ctx))
	report, err := boltstore.Check(ctx, s.dir)
	require.NoError(t, err)
	require.NoError(t, report.Err())
	assert.Equal(t, s.Info().ID, report.ID)
	assert.EqualValues(t, boltstore.FormatVersion, report.Format)
	assert.NotContains(t, report.String(), numbered(3).ID)
	assert.Contains(t, report.String(), "whole")
	require.Greater(t, len(report.Files), 4)
	for _, path := range append(s.files(""), filepath.Join(s.dir, "main.db")) {
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		b := bytes.Clone(before)
		pages := 32 << 10 // behind the two meta pages
		if filepath.Base(path) == "main.db" {
			pages = 2 * os.Getpagesize()
		}
		for i := pages; i < len(b) && i < 100<<10; i++ { // before what is only reserved
			b[i] ^= 4
		}
		write(t, path, string(b))
		report, err = boltstore.Check(ctx, s.dir)
		require.NoError(t, err)
		require.ErrorContains(t, report.Err(), filepath.Base(path))
		write(t, path, string(before))
	}
	_, err = boltstore.Check(ctx, t.TempDir())
	require.ErrorIs(t, err, onefold.ErrNotStore)
}
