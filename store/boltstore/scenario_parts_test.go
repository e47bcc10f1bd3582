package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
)

func TestScenario_B02_AnySingleBitMayFlipInPagesWithoutEndingTheProcess(t *testing.T) {
	const seed = 20300101
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	x := newImage(t)
	pages := len(x.b) / x.page
	damaged, fine := 0, 0
	for range 400 {
		page := uint64(random.IntN(pages))
		n := pageHeadLen // of the header, or of the elements as well
		if random.IntN(2) == 0 {
			n += int(native.Uint16(x.at(page)[10:])) * leafElementLen
		}
		at := random.IntN(min(n, x.page))
		bit := byte(1) << random.IntN(8)
		x.at(page)[at] ^= bit
		if err := x.open(t); err != nil {
			damaged++
			require.ErrorIs(t, err, onefold.ErrDamaged, "page %d, byte %d, bit %#x", page, at, bit)
		} else {
			fine++ // a free page, an older meta page, the sequence of a bucket
		}
		x.at(page)[at] ^= bit
	}
	assert.Positive(t, damaged)
	assert.Positive(t, fine)
	require.NoError(t, x.open(t), "all bits are back")
}

func TestScenario_D14_AtALimitOnlyFreshKeysAreRefusedAndNoneIsDropped(t *testing.T) {
	ctx := context.Background()
	s := opened(t, t.TempDir(), &Options{MaxRecords: 2})
	require.NoError(t, stored(t, s, entryOf("a", messageOf("m"))))
	held, err := hasBegun(s, "held", 1)
	require.NoError(t, err)
	released, err := hasBegun(s, "released", 2)
	require.NoError(t, err)
	require.NoError(t, stored(t, s, entryOf("b")))

	_, err = hasBegun(s, "fresh", 3)
	require.ErrorIs(t, err, onefold.ErrFull)
	require.ErrorContains(t, err, "MaxRecords")
	require.ErrorIs(t, stored(t, s, entryOf("fresh")), onefold.ErrFull)
	st, err := s.Stats(ctx)
	require.NoError(t, err)
	require.ErrorIs(t, st.Err, onefold.ErrFull)

	g, err := hasBegun(s, "a", 4)
	require.NoError(t, err)
	assert.Equal(t, onefold.Done, g.Verdict)
	g, err = hasBegun(s, "held", 5)
	require.NoError(t, err)
	assert.Equal(t, onefold.Busy, g.Verdict)
	require.NoError(t, s.Renew(ctx, held.Claim, time.Minute))
	require.NoError(t, s.Release(ctx, released.Claim, onefold.Failure{}))
	c := &onefold.Commit{Claim: held.Claim, Entry: entryOf("held")}
	require.NoError(t, s.Commit(ctx, []*onefold.Commit{c}))
	require.NoError(t, c.Err)
	own := &onefold.Commit{Entry: onefold.Entry{Writes: []onefold.Write{{Table: "t", Key: "k", Value: []byte("v")}}}}
	require.NoError(t, s.Commit(ctx, []*onefold.Commit{own}))
	require.NoError(t, own.Err)
	require.NoError(t, settled(s, nextOf(t, feedOf(t, s)), onefold.Sent))
	require.NoError(t, s.Erase(ctx, ofID("a")))
	for _, err := range s.Scan(ctx, onefold.Query{What: onefold.WhatRecords}) {
		require.NoError(t, err)
	}
	require.NoError(t, s.Close(ctx))
}

// constantOn computes a constant of options.go as a compiler for that processor does.
func constantOn(t *testing.T, name, processor string) int64 {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "options.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var found ast.Expr
	ast.Inspect(parsed, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].Name == name {
			found = v.Values[0]
		}
		return true
	})
	require.NotNil(t, found)
	var text bytes.Buffer
	require.NoError(t, printer.Fprint(&text, files, found))
	file, err := parser.ParseFile(files, "", "package p; const c int64 = "+text.String(), 0)
	require.NoError(t, err)
	checked, err := (&types.Config{Sizes: types.SizesFor("gc", processor)}).Check("p", files, []*ast.File{file}, nil)
	require.NoError(t, err)
	value, exact := constant.Int64Val(checked.Scope().Lookup("c").(*types.Const).Val())
	require.True(t, exact)
	return value
}

func TestScenario_B16_WhereAddressesAreScarceTheSizeIsLimitedByDefault(t *testing.T) {
	for _, processor := range []string{"386", "arm", "mips"} {
		limit := constantOn(t, "DefaultMaxBytes", processor)
		assert.EqualValues(t, 512<<20, limit, processor)
		assert.LessOrEqual(t, 2*limit, int64(stepMap), "well before what can be mapped")
	}
	for _, processor := range []string{"amd64", "arm64"} {
		assert.Zero(t, constantOn(t, "DefaultMaxBytes", processor), processor)
	}
	o, err := (&Options{MaxBytes: 512 << 20}).checked()
	require.NoError(t, err)
	err = o.limits().exceeded(usage{bytes: 512 << 20})
	require.ErrorIs(t, err, onefold.ErrFull)
	require.ErrorContains(t, err, "Options.MaxBytes is 536870912")
}

// sizes notes how many entries each bucket has after each write.
type sizes struct {
	store *Store
	after []tally
	err   error
}

// take is called by the writer after each commit.
func (z *sizes) take() error {
	if z.store == nil {
		return nil
	}
	err := z.store.db.View(func(tx *bolt.Tx) error {
		h, err := readHead(tx.Bucket(rootName).Bucket(metaName).Get)
		z.after = append(z.after, h.tally)
		return err
	})
	z.err = errors.Join(z.err, err)
	return nil
}

func TestScenario_B19_WhatHasExpiredIsDeletedInBoundedSteps(t *testing.T) {
	ctx, clock, z := context.Background(), newHandClock(), &sizes{}
	o := &Options{Clock: clock.clock(), FailureLag: time.Hour, MaxGroupEntries: 300}
	o.hooks.afterCommit, o.hooks.sweepEvery = z.take, time.Hour
	s := opened(t, t.TempDir(), o)
	const all = 2000
	var writes []onefold.Write
	for i := range all {
		writes = append(writes, onefold.Write{Table: "t", Key: fmt.Sprint(i), Value: []byte("v"), Retain: time.Minute})
	}
	require.NoError(t, stored(t, s, onefold.Entry{Writes: writes}))
	for i := range all {
		g, err := hasBegun(s, fmt.Sprint(i), uint64(i)+1)
		require.NoError(t, err)
		require.NoError(t, s.Release(ctx, g.Claim, onefold.Failure{Counted: true}))
	}
	z.store = s
	require.NoError(t, stored(t, s, entryOf("a")))
	clock.advance(30 * 24 * time.Hour)
	s.Sweep()
	require.NoError(t, s.Close(ctx))
	require.NoError(t, z.err)
	last := z.after[len(z.after)-1]
	assert.Zero(t, last[countState]+last[countExpiry]+last[countHistory])
	for i := 1; i < len(z.after); i++ {
		was, is := z.after[i-1], z.after[i]
		assert.LessOrEqual(t, int(was[countState])-int(is[countState]), sweepStep)
		assert.LessOrEqual(t, int(was[countExpiry])-int(is[countExpiry]), sweepStep)
		assert.LessOrEqual(t, int(was[countHistory])-int(is[countHistory]), o.MaxGroupEntries)
	}
	assert.Greater(t, len(z.after), all/sweepStep)
}
