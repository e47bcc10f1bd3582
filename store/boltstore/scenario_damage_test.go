package boltstore_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// whole is everything that a directory holds, by name.
func whole(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	}))
	return all
}

func TestScenario_B01_ADamagedStoreIsRefusedWithAdviceEachTime(t *testing.T) {
	for _, c := range brokenFiles() {
		t.Run(c.name, func(t *testing.T) {
			dir, said := c.dir(t), ""
			for range 3 { // as by a supervisor that starts the process again
				s, err := boltstore.Open(dir, nil)
				require.Nil(t, s)
				require.ErrorIs(t, err, onefold.ErrDamaged)
				require.ErrorContains(t, err, dir)
				require.ErrorContains(t, err, "main.db")
				require.ErrorContains(t, err, "backup")
				require.True(t, said == "" || said == err.Error(), "the same answer each time")
				said = err.Error()
			}
		})
	}
}

func TestScenario_B03_ADamagedStoreIsNeverMadeAnew(t *testing.T) {
	for _, c := range brokenFiles() {
		t.Run(c.name, func(t *testing.T) {
			dir := c.dir(t)
			before := whole(t, dir)
			for range 3 {
				_, err := boltstore.Open(dir, nil)
				require.ErrorIs(t, err, onefold.ErrDamaged)
			}
			require.Equal(t, before, whole(t, dir), "nothing is made, moved away or changed")
		})
	}
}

func TestScenario_B02_DamageInAnyPageNeverEndsTheProcess(t *testing.T) {
	original, err := os.ReadFile(main(made(t)))
	require.NoError(t, err)
	base := made(t)
	garbage := bytes.Repeat([]byte{0xFF, 0x5A, 0x00, 0x81}, 1<<10)
	for at := 0; at < len(original); at += len(garbage) {
		dir := t.TempDir()
		mark, err := os.ReadFile(filepath.Join(base, "STORE"))
		require.NoError(t, err)
		write(t, filepath.Join(dir, "STORE"), string(mark))
		b, err := os.ReadFile(main(base))
		require.NoError(t, err)
		copy(b[at:], garbage)
		write(t, main(dir), string(b))
		s, err := boltstore.Open(dir, &boltstore.Options{MmapBytes: 32 << 10})
		if err != nil {
			assert.ErrorIs(t, err, onefold.ErrDamaged, "page at %d", at)
			continue
		}
		// The page was free, or one of the two meta pages.
		require.NoError(t, s.Close(context.Background()))
	}
}

func TestScenario_B04_AFailedCompactLeavesTheStoreInUse(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	s.fill(250)
	require.NoError(t, s.Close(ctx))
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, _, err := boltstore.Compact(canceled, s.dir)
	require.ErrorIs(t, err, context.Canceled)
	path := s.files(".seg")[0]
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	_, _, err = boltstore.Compact(ctx, s.dir)
	require.ErrorIs(t, err, onefold.ErrDamaged)
	write(t, path, string(b))
	original, err := os.ReadFile(main(s.dir))
	require.NoError(t, err)
	refused := 0
	for page := os.Getpagesize(); page < min(len(original), 64<<10); page += os.Getpagesize() {
		damaged := bytes.Clone(original)
		copy(damaged[page:], bytes.Repeat([]byte{0xFF, 0x5A, 0x00, 0x81}, 100))
		write(t, main(s.dir), string(damaged))
		if _, _, err = boltstore.Compact(ctx, s.dir); err == nil {
			continue // the page was free
		}
		refused++
		require.ErrorIs(t, err, onefold.ErrDamaged, "page at %d", page)
		now, err := os.ReadFile(main(s.dir))
		require.NoError(t, err)
		require.True(t, bytes.Equal(damaged, now), "the file is as it was")
		require.NoFileExists(t, main(s.dir)+".compacting")
	}
	assert.Greater(t, refused, 4)
	write(t, main(s.dir), string(original))
	write(t, filepath.Join(s.dir, "main.db.compacting"), "left by a crash")
	s.open()
	s.holds(0, 250)
	assert.NoFileExists(t, filepath.Join(s.dir, "main.db.compacting"))
}

// secrets fills a store with what nobody else may see, and returns all of that.
func secrets(t *testing.T, s *sealer) (all []string) {
	t.Helper()
	ctx, n := context.Background(), 0
	secret := func(what string) string {
		n++
		all = append(all, fmt.Sprintf("secret%s%03d", what, n))
		return all[len(all)-1]
	}
	entryOf := func() onefold.Entry {
		e := entry(onefold.Key{Scope: secret("scope"), ID: secret("id")}, onefold.Effect{
			ID: secret("effect"), Kind: onefold.KindMessage, Target: secret("target"), Payload: []byte(secret("payload")),
			OrderKey: secret("order"), Header: onefold.Header{secret("name"): {secret("value")}},
		}, onefold.Effect{
			ID: secret("due"), Kind: onefold.KindMessage, Target: secret("target"), Timer: secret("timer"), NotBefore: s.clock.Wall().Add(time.Hour),
		})
		e.Result = []byte(secret("result"))
		e.Writes = []onefold.Write{{Table: secret("table"), Key: secret("key"), Value: []byte(secret("state")), Retain: time.Hour}}
		return e
	}
	for i := range 40 {
		e := entryOf()
		if i%4 == 0 {
			e.Outcome = onefold.ParkedUnknown
		}
		batch := one(nil, e)
		require.NoError(t, s.Commit(ctx, batch))
		require.NoError(t, batch[0].Err)
		k := onefold.Key{Scope: secret("scope"), ID: secret("id")}
		require.NoError(t, s.Release(ctx, begin(t, s.Store, k), onefold.Failure{Counted: true, Reason: secret("failure")}))
		s.KeepUp()
	}
	own := one(nil, joining(t, secret("id"), note(secret("note")), func(tx *bolt.Tx) error {
		within, err := tx.Bucket(mine).CreateBucket([]byte(secret("bucket")))
		if err != nil {
			return err
		}
		return within.Put([]byte(secret("key")), []byte(secret("value")))
	}))
	require.NoError(t, s.Commit(ctx, own))
	require.NoError(t, own[0].Err)
	require.NoError(t, s.Close(ctx))
	return all
}

func TestScenario_B25_TheReportOfACheckHasPagesAndNothingThatUsersHaveStored(t *testing.T) {
	ctx := context.Background()
	s := newSealer(t)
	s.o = boltstore.WithHooks(boltstore.Options{Clock: s.clock.Clock(), SegmentRecords: 15}, boltstore.Hooks{PieceRecords: 5, SweepEvery: time.Hour})
	s.reopen()
	all := secrets(t, s)
	report, err := boltstore.Check(ctx, s.dir)
	require.NoError(t, err)
	require.NoError(t, report.Err())
	require.Regexp(t, `main.db: \d+ bytes, \d+ pages of \d+, \d+ branches, \d+ leaves, .*state 40.*: whole`, report.String())
	problems := 0
	for path, before := range whole(t, s.dir) {
		if filepath.Base(path) == "STORE" {
			continue
		}
		for at := range len(before) { // each place where something secret begins, and the head of each page
			if at%os.Getpagesize() != 10 && !strings.HasPrefix(before[at:], "secret") {
				continue
			}
			overwrite(t, path, int64(at), []byte{before[at] ^ 0x40})
			report, err := boltstore.Check(ctx, s.dir)
			require.NoError(t, err)
			if report.Err() != nil {
				problems++
			}
			said := fmt.Sprint(report.String(), report.Err())
			for _, text := range []string{"ecret", "5ecret"} {
				require.NotContains(t, said, text)
				require.NotContains(t, said, hex.EncodeToString([]byte(text)))
			}
			overwrite(t, path, int64(at), []byte{before[at]})
		}
	}
	assert.Greater(t, problems, len(all))
}
