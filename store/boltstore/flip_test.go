package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
)

// fullOptions make the journal of a few records have several pieces.
func fullOptions() *Options {
	return &Options{Clock: goldenClock(), MmapBytes: 32 << 10, hooks: hooks{pieceRecords: 15}}
}

// makeFull makes a closed store with values of all kinds, in buckets that are a page and in such that are a tree.
func makeFull(t *testing.T, dir string) {
	t.Helper()
	makeGolden(t, dir)
	s := opened(t, dir, fullOptions())
	batch := make([]*onefold.Commit, 0, 60)
	for i := range cap(batch) {
		e := entryOf(fmt.Sprint(i), messageOf(fmt.Sprint(i)))
		if i%10 == 0 {
			e.Outcome = onefold.ParkedUnknown
		}
		batch = append(batch, &onefold.Commit{Entry: e})
	}
	require.NoError(t, s.Commit(context.Background(), batch))
	require.NoError(t, s.Close(context.Background()))
	cutReserve(t, mainPath(dir))
}

// answers is all that a store says of what it holds.
func answers(t *testing.T, s *Store) string {
	t.Helper()
	ctx := context.Background()
	var b strings.Builder
	for _, what := range []onefold.What{
		onefold.WhatRecords, onefold.WhatWaiting, onefold.WhatParked, onefold.WhatAttention, onefold.WhatState,
	} {
		for item, err := range s.Scan(ctx, onefold.Query{What: what, Table: "t"}) {
			fmt.Fprintf(&b, "%s %s %s %s %+v %v\n", what, item.After, item.Reason, item.Key, item.Value, err)
			if item.Row != nil {
				fmt.Fprintf(&b, "%v %+v %d %v\n", item.Row.Key, item.Row.Effect, item.Row.Attempt, item.Row.Tried)
			}
			if item.Record == nil {
				continue
			}
			fmt.Fprintf(&b, "%+v\n", *item.Record)
			if r, err := s.Lookup(ctx, item.Record.Key); !item.Record.Erased {
				fmt.Fprintf(&b, "%+v %v\n", r, err)
			}
		}
	}
	for i, id := range []string{"plain", "erased", "rows", "failed", "fresh"} {
		g, err := s.Begin(ctx, onefold.Request{
			Key: onefold.Key{Scope: "ORDERS/billing", ID: id}, Lease: time.Minute, Holder: onefold.Holder{Process: 9, Attempt: uint64(i) + 1},
		})
		fmt.Fprintf(&b, "%s: %v %+v %v\n", id, g.Verdict, g.History, err)
	}
	return b.String()
}

// copied is a store whose main file is damaged.
type copied struct {
	mark, file []byte
	want       string // answers of the whole store
}

func newCopied(t *testing.T) *copied {
	t.Helper()
	c := &copied{}
	dir := t.TempDir()
	makeFull(t, dir)
	var err error
	c.mark, err = os.ReadFile(filepath.Join(dir, storeFile))
	require.NoError(t, err)
	c.file, err = os.ReadFile(mainPath(dir))
	require.NoError(t, err)
	c.want, err = c.open(t)
	require.NoError(t, err)
	require.Contains(t, c.want, "failed: granted {Starts:1")
	return c
}

// open returns what a store with these files answers, or why it does not open.
func (c *copied) open(t *testing.T) (string, error) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, storeFile), c.mark, 0o600))
	require.NoError(t, os.WriteFile(mainPath(dir), c.file, 0o600))
	s, err := Open(dir, fullOptions())
	if err != nil {
		return "", err
	}
	said := answers(t, s)
	return said, s.Crash()
}

// survey reports what Open would say before it lets bbolt see the file.
func (c *copied) survey() error {
	found, err := surveyFile(bytes.NewReader(c.file), int64(len(c.file)))
	if err != nil {
		return fmt.Errorf("%w: %w", onefold.ErrDamaged, err)
	}
	return (&Store{path: mainFile}).admitSurveyed(found, true)
}

func named(err error) bool {
	return errors.Is(err, onefold.ErrDamaged) || errors.Is(err, onefold.ErrNewerFormat) || errors.Is(err, onefold.ErrNotStore)
}

func TestAFlippedBitIsNamedOrChangesNoAnswer(t *testing.T) {
	const seed = 20300203
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	c := newCopied(t)
	// The survey is fast, so it gets to see many flips; what it lets pass is opened as a store.
	var passed []int
	refused := 0
	for at := range c.file {
		if c.file[at] == 0 && random.IntN(3) > 0 {
			continue // mostly what is left free in pages
		}
		bit := random.IntN(8)
		c.file[at] ^= 1 << bit
		if err := c.survey(); err != nil {
			require.True(t, named(err), "byte %d, bit %d: %v", at, bit, err)
			refused++
		} else {
			passed = append(passed, at*8+bit)
		}
		c.file[at] ^= 1 << bit
	}
	t.Logf("%d refused, %d passed of %d bytes", refused, len(passed), len(c.file))
	assert.Positive(t, refused)
	used, rest := c.split(passed)
	random.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	for _, at := range append(used, rest[:min(len(rest), 30)]...) {
		c.file[at/8] ^= 1 << (at % 8)
		said, err := c.open(t)
		if err != nil {
			require.True(t, named(err), "byte %d, bit %d: %v", at/8, at%8, err)
		} else {
			require.Equal(t, c.want, said, "byte %d, bit %d", at/8, at%8)
		}
		c.file[at/8] ^= 1 << (at % 8)
	}
}

// split tells bits of bytes that mean something from those of free pages and of what is left free in pages.
func (c *copied) split(bits []int) (used, rest []int) {
	found, err := surveyFile(bytes.NewReader(c.file), int64(len(c.file)))
	if err != nil {
		return bits, nil
	}
	for _, bit := range bits {
		page, at := uint64(bit/8)/uint64(found.page), bit/8
		if found.reached[page/64]&(1<<(page%64)) != 0 && (c.file[at] != 0 || at%int(found.page) < pageHeadLen) {
			used = append(used, bit)
		} else {
			rest = append(rest, bit)
		}
	}
	return used, rest
}

func TestEntriesThatAreMissingAreMissed(t *testing.T) {
	c := newCopied(t)
	page := os.Getpagesize()
	leaves := 0
	for at := 2 * page; at < len(c.file); at += page {
		head := c.file[at : at+pageHeadLen]
		n := native.Uint16(head[10:])
		if native.Uint16(head[8:]) != leafPage || n < 2 {
			continue
		}
		whole := bytes.Clone(c.file[at : at+page])
		native.PutUint16(head[10:], n-1)
		said, err := c.open(t)
		if err == nil {
			require.Equal(t, c.want, said, "the page at %d was free", at)
		} else {
			require.ErrorIs(t, err, onefold.ErrDamaged, "page at %d", at)
			leaves++
		}
		clear(c.file[at : at+page])
		said, err = c.open(t)
		if err == nil {
			require.Equal(t, c.want, said, "the page at %d was free", at)
		} else {
			require.ErrorIs(t, err, onefold.ErrDamaged, "page at %d", at)
		}
		copy(c.file[at:], whole)
	}
	assert.Greater(t, leaves, 4)
}

func TestDamageNamesBucketAndKeyAndNoMore(t *testing.T) {
	c := newCopied(t)
	at := bytes.LastIndex(c.file, []byte("secret"))
	assert.Negative(t, at, "it was erased")
	var err error
	for from := len(c.file); err == nil; from = at { // the last ones may stand in pages that are free
		at = bytes.LastIndex(c.file[:from], []byte("result"))
		require.Positive(t, at, "the value is not looked at")
		c.file[at] ^= 1
		_, err = c.open(t)
		c.file[at] ^= 1
	}
	require.ErrorIs(t, err, onefold.ErrDamaged)
	assert.ErrorContains(t, err, `bucket "seg", key 00000000000000`)
	assert.ErrorContains(t, err, "checksum")
	assert.NotContains(t, err.Error(), "esult")
}

func TestAPieceOfTheJournalUnderAnotherNameIsDamage(t *testing.T) {
	c := newCopied(t)
	path := filepath.Join(t.TempDir(), mainFile)
	require.NoError(t, os.WriteFile(path, c.file, 0o600))
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	var page int
	require.NoError(t, db.View(func(tx *bolt.Tx) error {
		page = int(tx.Bucket(rootName).Bucket(segName).Root()) * os.Getpagesize()
		return nil
	}))
	require.NoError(t, db.Close())
	require.Positive(t, page)
	pieces, refused := int(native.Uint16(c.file[page+10:])), 0
	require.Greater(t, pieces, 3)
	for i := range pieces {
		element := page + pageHeadLen + i*leafElementLen
		name := element + int(native.Uint32(c.file[element+4:]))
		for bit := range 64 {
			c.file[name+bit/8] ^= 1 << (bit % 8)
			said, err := c.open(t)
			if err != nil {
				require.ErrorIs(t, err, onefold.ErrDamaged)
				refused++
			} else {
				require.Equal(t, c.want, said, "piece %d, bit %d", i, bit)
			}
			c.file[name+bit/8] ^= 1 << (bit % 8)
		}
	}
	assert.Positive(t, refused)
}
