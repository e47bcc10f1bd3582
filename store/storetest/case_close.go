package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func closeCases() []testCase {
	return []testCase{
		{name: "calls after close are refused", run: afterClose,
			rule: "After Close every call returns ErrClosed, closing again is success, and Info still answers."},
		{name: "close ends those who wait", run: closeEndsWaiting,
			rule: "Next and Wait that are blocked return ErrClosed when the store is closed."},
		{name: "close waits for accepted commits", needs: needHold, run: closeWaits,
			rule: "Close refuses new work at once and returns only when the commits that were accepted before have their outcome."},
		{name: "a cancelled call does nothing by halves", run: cancelledCalls,
			rule: "Begin and Commit with a cancelled context either do all they say or return the context's error; a commit that was not stored can be made again."},
	}
}

func afterClose(e *env) {
	k := e.doneWith("a", 1)
	f := e.feed()
	row := e.handsOutOne(f, k.EffectID(0))
	c := e.claim(key("b"))
	s, info := e.store, e.store.Info()
	require.NoError(e, s.Close(e.ctx))
	require.NoError(e, s.Close(e.ctx), "closing again")
	assert.Equal(e, info, s.Info())

	calls := map[string]func() error{
		"Begin":   func() error { _, err := s.Begin(e.ctx, request(key("c"))); return err },
		"Renew":   func() error { return s.Renew(e.ctx, c, lease) },
		"Release": func() error { return s.Release(e.ctx, c, onefold.Failure{Reason: "no"}) },
		"Commit":  func() error { return e.try(c, entry(key("b"))).Err },
		"Read":    func() error { _, err := s.Read(e.ctx, "t", "x"); return err },
		"Lookup":  func() error { _, err := s.Lookup(e.ctx, k); return err },
		"Wait":    func() error { _, err := s.Wait(e.ctx, k); return err },
		"Erase":   func() error { return s.Erase(e.ctx, k) },
		"Scan":    func() error { return e.scanErr(onefold.Query{What: onefold.WhatRecords}) },
		"Feed":    func() error { _, err := s.Feed(e.ctx, lease); return err },
		"Settle":  func() error { return s.Settle(e.ctx, sentAll([]onefold.Row{row})) },
		"Stats":   func() error { _, err := s.Stats(e.ctx); return err },
		"Next":    func() error { _, err := f.Next(e.ctx, 1); return err },
	}
	for name, call := range calls {
		assert.ErrorIs(e, call(), onefold.ErrClosed, name)
	}
	assert.NoError(e, f.Close())
}

func closeEndsWaiting(e *env) {
	k := key("a")
	en := entry(k, message(k, 0))
	e.done(en)
	f := e.feed()
	e.handsOut(f, k.EffectID(0))
	rows, record := e.nextLater(e.ctx, f), e.waitLater(e.ctx, k)
	require.NoError(e, e.store.Close(e.ctx))
	assert.ErrorIs(e, (<-rows).err, onefold.ErrClosed, "Next")
	assert.ErrorIs(e, (<-record).err, onefold.ErrClosed, "Wait")
}

func closeWaits(e *env) {
	c := e.claim(key("a"))
	accepted, release := e.hold()
	result, closed := make(chan error, 1), make(chan error, 1)
	go func() { result <- e.try(c, entry(key("a"))).Err }()
	e.await(accepted, "the commit is accepted")
	s := e.store
	short, cancel := context.WithTimeout(e.ctx, time.Millisecond)
	defer cancel()
	err := s.Close(short)
	go func() { closed <- s.Close(e.ctx) }()
	_, refused := s.Begin(e.ctx, request(key("b")))
	early := len(closed) > 0 // it cannot see a call that is about to return, so it never fails a correct store
	release()
	assert.False(e, early, "Close returned while a commit was in flight")
	require.Error(e, err, "the first Close could not wait long enough")
	require.NoError(e, <-result, "the accepted commit")
	require.NoError(e, <-closed)
	assert.ErrorIs(e, refused, onefold.ErrClosed)
}

func cancelledCalls(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err := e.store.Begin(ctx, request(key("a")))
	if err != nil {
		require.ErrorIs(e, err, context.Canceled)
		e.verdict(onefold.Granted, key("a"), "nothing was claimed")
	}
	k := key("b")
	c := e.claim(k)
	one := &onefold.Commit{Claim: c, Entry: entry(k, message(k, 0))}
	err = errors.Join(e.store.Commit(ctx, []*onefold.Commit{one}), one.Err)
	if err != nil {
		require.ErrorIs(e, err, context.Canceled)
	}
	e.commit(c, one.Entry)
	e.handsOut(e.feed(), k.EffectID(0))
}
