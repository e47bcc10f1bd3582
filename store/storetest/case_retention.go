package storetest

import (
	"math"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func retentionCases() []testCase {
	return []testCase{
		{name: "a record lives for its retention", needs: needClock, run: recordLives,
			rule: "A key is done until the retention of its record has passed since the commit; then it is fresh again, is granted under a higher token, and leaves its effects anew."},
		{name: "the reader decides what has expired", needs: needClock, run: readerDecides,
			rule: "Records and values with a life of a second are gone two seconds later, whether or not anything was cleaned up, and are not gone before."},
		{name: "jumps of the wall clock end no record", needs: needClock, run: wallEndsNoRecord,
			rule: "A wall clock two days ahead or two days back changes nothing about which records have expired."},
		{name: "duplicates do not extend retention", needs: needClock, run: duplicatesDoNotExtend,
			rule: "Asking for a done key, looking it up or committing it again does not make its record live longer."},
		{name: "each record has its own life", needs: needClock, run: ownLives,
			rule: "A short retention ends in time beside long ones, and a long one is not cut by short ones."},
		{name: "an expired key used again keeps its new record", needs: needClock, run: usedAgain,
			rule: "When a key is stored anew after its record expired, removing the old record never removes the new one."},
		{name: "an endless retention does not end", needs: needClock, run: endlessRetention,
			rule: "The longest possible retention is kept, and does not wrap around."},
		{name: "a record lives while its effects are unsettled", needs: needClock, run: rowsSurvive,
			rule: "Effects that have not left are handed out however long ago the retention of their record ended, and until they are settled the key is done; then it is fresh again."},
	}
}

func recordLives(e *env) {
	k := key("a")
	first := e.claim(k)
	e.commit(first, entry(k, message(k, 0)))
	f := e.feed()
	e.settle(onefold.Sent, e.handsOutOne(f, k.EffectID(0)))
	e.clock.Advance(retain - time.Minute)
	e.verdict(onefold.Done, k, "a minute before the end")
	e.clock.Advance(2 * time.Minute)
	e.nothingStored(k)
	assert.Empty(e, e.scan(onefold.Query{What: onefold.WhatRecords}))
	second := e.claim(k)
	assert.Greater(e, second.Token, first.Token)
	e.commit(second, entry(k, message(k, 0)))
	e.handsOutOne(e.feedAgain(f), k.EffectID(0))
	e.verdict(onefold.Done, k, "stored anew")
}

func readerDecides(e *env) {
	e.done(entry(key("long"))) // the store has just had an occasion to clean up
	for i := range 10 {
		en := entry(key(name("a", i)))
		en.Retain = time.Second
		en.Writes = []onefold.Write{put("t", en.Key.ID, "v")}
		en.Writes[0].Retain = time.Second
		e.done(en)
	}
	e.clock.Advance(time.Second / 2)
	e.verdict(onefold.Done, key(name("a", 0)), "half a second old")
	e.clock.Advance(time.Second * 3 / 2)
	assert.Len(e, e.scan(onefold.Query{What: onefold.WhatRecords}), 1)
	assert.Empty(e, e.scan(onefold.Query{What: onefold.WhatState, Table: "t"}))
	for i := range 10 {
		k := key(name("a", i))
		e.nothingStored(k)
		assert.Zero(e, e.read("t", k.ID).Version)
		e.verdict(onefold.Granted, k, "expired")
	}
}

func wallEndsNoRecord(e *env) {
	e.done(entry(key("a")))
	e.clock.StepWall(48 * time.Hour)
	e.verdict(onefold.Done, key("a"), "the wall clock is two days ahead")
	e.done(entry(key("b")))
	e.clock.StepWall(-96 * time.Hour)
	e.verdict(onefold.Done, key("a"), "the wall clock is two days back")
	e.clock.Advance(retain + time.Minute)
	e.verdict(onefold.Granted, key("a"), "its time has passed")
	e.verdict(onefold.Granted, key("b"), "stored while the wall clock was ahead")
}

func duplicatesDoNotExtend(e *env) {
	k := key("a")
	c := e.claim(k)
	e.commit(c, entry(k))
	for range 6 {
		e.verdict(onefold.Done, k, "not expired yet")
		e.record(k)
		e.commit(c, entry(k))
		e.commit(nil, entry(k))
		e.clock.Advance(retain/6 + time.Second)
	}
	e.verdict(onefold.Granted, k, "expired, whatever was asked")
}

func ownLives(e *env) {
	short, long := entry(key("short")), entry(key("long"))
	short.Retain, long.Retain = time.Minute, 24*time.Hour
	e.done(long)
	e.done(short)
	e.clock.Advance(2 * time.Minute)
	e.verdict(onefold.Granted, key("short"), "its retention was a minute")
	e.clock.Advance(23 * time.Hour)
	e.done(entry(key("other")))
	e.verdict(onefold.Done, key("long"), "its retention is a day")
	e.clock.Advance(time.Hour)
	e.verdict(onefold.Granted, key("long"), "its retention was a day")
}

func usedAgain(e *env) {
	k := key("a")
	e.done(entry(k))
	e.clock.Advance(retain + time.Second)
	e.done(entry(k))
	for range 5 {
		e.clock.Advance(retain / 6)
		e.done(entry(key(e.clock.Mono().String()))) // something for the store to do
		e.verdict(onefold.Done, k, "the new record")
	}
	e.clock.Advance(retain)
	e.verdict(onefold.Granted, k, "the new record has expired")
}

func endlessRetention(e *env) {
	e.clock.Advance(time.Hour) // so that the end is beyond what a number can hold
	en := entry(key("a"))
	en.Retain = math.MaxInt64
	e.done(en)
	e.clock.Advance(10 * 365 * 24 * time.Hour)
	e.verdict(onefold.Done, key("a"), "ten years later")
}

func rowsSurvive(e *env) {
	k := e.doneWith("a", 1)
	e.clock.Advance(100 * retain)
	e.done(entry(key("b"))) // something for the store to do
	e.verdict(onefold.Done, k, "its effect waits")
	f := e.feed()
	row := e.handsOutOne(f, k.EffectID(0))
	assert.Equal(e, k, row.Key)
	e.verdict(onefold.Done, k, "its effect is out")
	e.settle(onefold.Sent, row)
	e.nothingStored(k)
	require.NoError(e, f.Close())
	e.handsOut(e.feed())
}
