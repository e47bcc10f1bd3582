package consumer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/internal/pace"
)

// This file is what happens while the store does not answer: pulling stops, so that nothing is handed to
// us only to wait, what is held is asked for again or given back, and pulling goes on when both kinds of
// call are answered again.

// storeCall is a kind of call that can fail while the other works: a full store takes commits and refuses
// claims.
type storeCall uint32

const (
	callBegin storeCall = 1 << iota
	callCommit
)

// trouble is the set of calls that the store does not answer now.
type trouble struct {
	mu    sync.Mutex // makes a change of calls and what follows from it one step
	calls atomic.Uint32
}

func (t *trouble) has(c storeCall) bool { return t.calls.Load()&uint32(c) != 0 }

// storeFails stops pulling until the store answers such calls again.
func (s *session) storeFails(c storeCall, err error) {
	if s.trouble.has(c) {
		return
	}
	s.trouble.mu.Lock()
	defer s.trouble.mu.Unlock()
	before := s.trouble.calls.Load()
	s.trouble.calls.Store(before | uint32(c))
	if before == 0 {
		s.stopFor(whyStore, true, err)
	}
}

// storeWorks notes that the store has answered such a call.
func (s *session) storeWorks(c storeCall) {
	if !s.trouble.has(c) {
		return
	}
	s.trouble.mu.Lock()
	defer s.trouble.mu.Unlock()
	before := s.trouble.calls.Load()
	after := before &^ uint32(c)
	s.trouble.calls.Store(after)
	if before != 0 && after == 0 {
		s.stopFor(whyStore, false, nil)
	}
}

// probeInterval is how often a store that refuses claims is asked again on nobody's behalf.
const probeInterval = 250 * time.Millisecond

// probeStore asks for claims while the store refuses them, until ctx ends. Without it a consumer that has
// given everything back would never learn that the store is well again. Commits need no probe: what waits
// to be committed is never given back, so it is asked for until it is answered.
func (s *session) probeStore(ctx context.Context) {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if s.trouble.has(callBegin) {
			s.probe(ctx)
		}
	}
}

// probe makes and gives back a claim of a key that no message can have.
func (s *session) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.beat.lease)
	defer cancel()
	key := onefold.Key{Scope: scopeScope}.Derive("probe", s.cfg.Scope)
	grant, err := s.st.Begin(ctx, onefold.Request{Key: key, Lease: s.cfg.Lease, Holder: s.holder()})
	switch {
	case err == nil:
		if grant.Verdict == onefold.Granted {
			_ = s.st.Release(ctx, grant.Claim, onefold.Failure{Reason: "probe"}) // it ends by itself
		}
		s.storeWorks(callBegin)
	case fatalStoreError(err):
		s.fail(err)
	}
}

// fatalStoreError reports whether err says that the store will not serve this process again.
func fatalStoreError(err error) bool {
	return errors.Is(err, onefold.ErrDamaged) || errors.Is(err, onefold.ErrClosed)
}

// begin asks for a claim. If it reports false, d has ended or is left for shutdown to give back.
func (s *session) begin(d *delivery) (onefold.Grant, bool) {
	d.holder = s.holder()
	return s.ask(d, stageClaiming, s.request(d, s.cfg.ParkUnknown))
}

// request asks for d's claim; durable counts its start.
func (s *session) request(d *delivery, durable bool) onefold.Request {
	return onefold.Request{Key: d.key, Fingerprint: d.fingerprint, Lease: s.cfg.Lease, Holder: d.holder, Durable: durable}
}

// ask asks the store until it answers, the delivery is taken back from its stage, or the consumer ends.
func (s *session) ask(d *delivery, at stage, request onefold.Request) (grant onefold.Grant, ok bool) {
	var retry *backoff.ExponentialBackOff
	unknown := false // whether a start was counted
	defer func() {
		if unknown && !ok {
			s.background.Go(func() { s.withdraw(request) })
		}
	}()
	for {
		grant, err := s.st.Begin(s.handlers, request)
		unknown = unknown || request.Durable && errors.Is(err, onefold.ErrUnknown)
		switch {
		case err == nil:
			s.storeWorks(callBegin)
			return grant, true
		case fatalStoreError(err):
			s.fail(err)
			return grant, false
		case errors.Is(err, onefold.ErrInvalid), errors.Is(err, onefold.ErrTooLarge):
			s.reroute(d, rejectRefused(err))
			return grant, false
		case s.handlers.Err() != nil:
			return grant, false
		}
		s.storeFails(callBegin, err)
		if retry == nil {
			retry = pace.Store()
		}
		if !pace.Sleep(s.handlers, retry.NextBackOff()) || d.at() != at {
			return grant, false
		}
	}
}

// withdraw takes back a claim and its counted start that were asked for without an answer: left alone it would look like
// a run that was cut short.
func (s *session) withdraw(request onefold.Request) {
	retry := pace.Store()
	for {
		grant, err := s.st.Begin(s.waits, request)
		switch {
		case err == nil && grant.Verdict == onefold.Granted:
			_ = s.unclaim(grant.Claim, onefold.Failure{Reason: "given back before it ran"}) // else it ends with its lease
			return
		case err == nil, fatalStoreError(err):
			return
		}
		if !pace.Sleep(s.waits, retry.NextBackOff()) {
			return
		}
	}
}
