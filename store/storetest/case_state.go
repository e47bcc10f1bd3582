package storetest

import (
	"errors"
	"runtime"
	"strconv"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func stateCases() []testCase {
	return []testCase{
		{name: "absent state has version 0", run: absentState,
			rule: "Reading state that is not there is no error and gives version 0; a written value has another version."},
		{name: "of two that read one version one commits", run: oneVersionTwice,
			rule: "Of two entries in one batch that read the same version the second gets ErrConflict and leaves no trace; its claim is still held, and it can be committed after reading again."},
		{name: "a version moved by another commit is a conflict", run: movedVersion,
			rule: "An entry whose read version was moved by an earlier commit gets ErrConflict, even if the value is equal."},
		{name: "later entries see earlier ones", run: laterSeeEarlier,
			rule: "Reads of an entry are checked against the state that earlier entries of the same batch leave behind."},
		{name: "reading something absent is a read", run: absentRead,
			rule: "An entry that read a key as absent gets ErrConflict if the key is there when it is committed, and is stored if it is absent still."},
		{name: "a version is never used twice", run: versionsNeverRepeat,
			rule: "Deleting and writing a value anew never brings back a version that the key had before."},
		{name: "a blind write overwrites", run: blindWrite,
			rule: "A write without a read of its key is stored whatever was written in between."},
		{name: "state can be stored without a record", run: stateOnly,
			rule: "An entry with a zero key stores its writes if its reads hold, and makes no record."},
		{name: "tables and keys are kept apart", run: tablesApart,
			rule: "A value belongs to its table and key, even if table and key joined together are equal."},
		{name: "concurrent counters lose nothing", run: counters,
			rule: "When many entries read and write one value at once, and those that conflict read again and commit again, no update is lost."},
		{name: "a value with a life ends", needs: needClock, run: valueWithLife,
			rule: "A value written with Retain is absent after that time, counts as absent in reads, and its version never comes again."},
		{name: "a bad name of state is refused", run: badStateName,
			rule: "State without a table or without a key is refused with ErrInvalid."},
	}
}

// readModifyWrite is an entry that appends to a value it has read.
func readModifyWrite(k onefold.Key, table, row string, v onefold.Value) onefold.Entry {
	en := entry(k)
	en.Reads = []onefold.Read{{Table: table, Key: row, Version: v.Version}}
	en.Writes = []onefold.Write{put(table, row, string(v.Data)+k.ID)}
	return en
}

func absentState(e *env) {
	assert.Equal(e, onefold.Value{}, e.read("t", "x"))
	e.write(put("t", "x", ""))
	v := e.read("t", "x")
	assert.NotZero(e, v.Version, "an empty value is there")
	assert.Empty(e, v.Data)
}

func oneVersionTwice(e *env) {
	e.write(put("t", "x", ""))
	v := e.read("t", "x")
	first := &onefold.Commit{Claim: e.claim(key("a")), Entry: readModifyWrite(key("a"), "t", "x", v)}
	second := &onefold.Commit{Claim: e.claim(key("b")), Entry: readModifyWrite(key("b"), "t", "x", v)}
	second.Entry.Effects = []onefold.Effect{message(key("b"), 0)}
	require.NoError(e, e.store.Commit(e.ctx, []*onefold.Commit{first, second}))
	require.NoError(e, first.Err)
	require.ErrorIs(e, second.Err, onefold.ErrConflict)
	e.nothingStored(key("b"))
	assert.Equal(e, "a", string(e.read("t", "x").Data))
	e.verdict(onefold.Busy, key("b"), "the claim is still held")
	e.handsOut(e.feed())

	e.commit(second.Claim, readModifyWrite(key("b"), "t", "x", e.read("t", "x")))
	assert.Equal(e, "ab", string(e.read("t", "x").Data))
}

func movedVersion(e *env) {
	e.write(put("t", "x", "same"))
	v := e.read("t", "x")
	e.write(put("t", "x", "same"))
	assert.NotEqual(e, v.Version, e.read("t", "x").Version)
	c := e.claim(key("a"))
	require.ErrorIs(e, e.try(c, readModifyWrite(key("a"), "t", "x", v)).Err, onefold.ErrConflict)
	e.commit(c, readModifyWrite(key("a"), "t", "x", e.read("t", "x")))
}

func laterSeeEarlier(e *env) {
	// The second entry expects absence, which only the deletion by the first one brings about.
	e.write(put("t", "x", "old"))
	first, second := entry(key("a")), entry(key("b"))
	first.Writes = []onefold.Write{{Table: "t", Key: "x", Delete: true}}
	second.Reads = []onefold.Read{{Table: "t", Key: "x"}}
	second.Writes = []onefold.Write{put("t", "x", "new")}
	batch := []*onefold.Commit{
		{Claim: e.claim(key("a")), Entry: first},
		{Claim: e.claim(key("b")), Entry: second},
	}
	require.NoError(e, e.store.Commit(e.ctx, batch))
	require.NoError(e, batch[0].Err)
	require.NoError(e, batch[1].Err)
	assert.Equal(e, "new", string(e.read("t", "x").Data))
}

func absentRead(e *env) {
	c := e.claim(key("a"))
	en := readModifyWrite(key("a"), "t", "x", onefold.Value{})
	e.write(put("t", "x", "between"))
	require.ErrorIs(e, e.try(c, en).Err, onefold.ErrConflict)
	e.write(onefold.Write{Table: "t", Key: "x", Delete: true})
	e.commit(c, en)
	assert.Equal(e, "a", string(e.read("t", "x").Data))
}

func versionsNeverRepeat(e *env) {
	seen := map[uint64]bool{0: true}
	var first onefold.Value
	for i := range 5 {
		e.write(put("t", "x", "v"))
		v := e.read("t", "x")
		require.False(e, seen[v.Version], "version %d was used before", v.Version)
		seen[v.Version] = true
		if i == 0 {
			first = v
		}
		e.write(onefold.Write{Table: "t", Key: "x", Delete: true})
		require.Zero(e, e.read("t", "x").Version)
	}
	e.write(put("t", "x", "v"))
	require.ErrorIs(e, e.try(e.claim(key("a")), readModifyWrite(key("a"), "t", "x", first)).Err, onefold.ErrConflict)
}

func blindWrite(e *env) {
	e.write(put("t", "x", "between"))
	en := entry(key("a"))
	en.Writes = []onefold.Write{put("t", "x", "blind")}
	e.done(en)
	assert.Equal(e, "blind", string(e.read("t", "x").Data))
}

func stateOnly(e *env) {
	e.write(put("t", "x", "1"))
	v := e.read("t", "x")
	moved := onefold.Entry{
		Reads:  []onefold.Read{{Table: "t", Key: "x", Version: v.Version}},
		Writes: []onefold.Write{put("t", "x", "2"), put("t", "y", "2")},
	}
	e.commit(nil, moved)
	require.ErrorIs(e, e.try(nil, moved).Err, onefold.ErrConflict, "the version has moved")
	assert.Equal(e, "2", string(e.read("t", "x").Data))
	assert.Equal(e, "2", string(e.read("t", "y").Data))
	assert.Empty(e, e.scan(onefold.Query{What: onefold.WhatRecords}))
	e.nothingStored(onefold.Key{})
}

func tablesApart(e *env) {
	names := [][2]string{{"a", "bc"}, {"ab", "c"}, {"a", "b/c"}, {"a/b", "c"}, {"a", "b\x00c"}, {"a\x00b", "c"}}
	for i, n := range names {
		e.write(put(n[0], n[1], strconv.Itoa(i)))
	}
	for i, n := range names {
		assert.Equal(e, strconv.Itoa(i), string(e.read(n[0], n[1]).Data), "%q", n)
	}
}

func counters(e *env) {
	const writers, each = 4, 10
	together(writers, func(w int) {
		for i := range each {
			if err := e.increment(key(name(strconv.Itoa(w), i))); !assert.NoError(e, err) {
				return
			}
		}
	})
	assert.Equal(e, strconv.Itoa(writers*each), string(e.read("t", "n").Data))
}

// increment adds one to a counter in the commit of k, as often as it takes.
func (e *env) increment(k onefold.Key) error {
	g, err := e.store.Begin(e.ctx, request(k))
	if err != nil {
		return err
	}
	for {
		v, err := e.store.Read(e.ctx, "t", "n")
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(v.Data)) // absent counts as 0
		en := readModifyWrite(k, "t", "n", v)
		en.Writes[0].Value = []byte(strconv.Itoa(n + 1))
		one := &onefold.Commit{Claim: g.Claim, Entry: en}
		runtime.Gosched() // lets others read the same version
		if err := e.store.Commit(e.ctx, []*onefold.Commit{one}); err != nil {
			return err
		}
		if !errors.Is(one.Err, onefold.ErrConflict) {
			return one.Err
		}
	}
}

func valueWithLife(e *env) {
	short, long := put("t", "short", "1"), put("t", "long", "1")
	short.Retain = time.Minute
	e.write(short, long)
	v := e.read("t", "short")
	e.clock.StepWall(48 * time.Hour)
	require.Equal(e, v.Version, e.read("t", "short").Version, "the wall clock decides nothing")
	e.clock.Advance(2 * time.Minute)
	assert.Equal(e, onefold.Value{}, e.read("t", "short"))
	assert.Equal(e, "1", string(e.read("t", "long").Data))
	e.commit(nil, onefold.Entry{
		Reads:  []onefold.Read{{Table: "t", Key: "short"}},
		Writes: []onefold.Write{put("t", "short", "2")},
	})
	assert.NotEqual(e, v.Version, e.read("t", "short").Version)
	e.clock.Advance(2 * time.Minute)
	assert.Equal(e, "2", string(e.read("t", "short").Data), "the second value has no end")
}

func badStateName(e *env) {
	for _, n := range [][2]string{{"", "x"}, {"t", ""}} {
		_, err := e.store.Read(e.ctx, n[0], n[1])
		assert.ErrorIs(e, err, onefold.ErrInvalid, "Read %q", n)
		err = e.try(nil, onefold.Entry{Writes: []onefold.Write{put(n[0], n[1], "1")}}).Err
		assert.ErrorIs(e, err, onefold.ErrInvalid, "Write %q", n)
	}
}
