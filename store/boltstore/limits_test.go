package boltstore

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
)

func TestLimitsAreReachedWhenANumberIsNotBelowThem(t *testing.T) {
	all := limits{bytes: 1000, records: 10, waiting: 5, waitingBytes: 300, waitingAge: time.Minute}
	below := usage{bytes: 999, records: 9, waiting: 4, waitingBytes: 299, oldest: time.Minute - 1}
	for name, c := range map[string]struct {
		l    limits
		u    func(u *usage)
		want []string // nil: let in
	}{
		"below all":     {all, func(*usage) {}, nil},
		"no limit":      {limits{}, func(u *usage) { *u = usage{1 << 60, 1 << 30, 1 << 30, 1 << 60, 1 << 60} }, nil},
		"bytes":         {all, func(u *usage) { u.bytes = 1000 }, []string{"1000 bytes in use", "Options.MaxBytes is 1000", "shorten the retention"}},
		"records":       {all, func(u *usage) { u.records = 11 }, []string{"11 records", "Options.MaxRecords is 10", "expired"}},
		"waiting":       {all, func(u *usage) { u.waiting = 5 }, []string{"5 effects waiting", "Options.MaxWaiting is 5", "relay"}},
		"waiting bytes": {all, func(u *usage) { u.waitingBytes = 301 }, []string{"301 bytes", "Options.MaxWaitingBytes is 300", "relay"}},
		"waiting age":   {all, func(u *usage) { u.oldest = time.Hour }, []string{"1h0m0s", "Options.MaxWaitingAge is 1m0s", "relay"}},
	} {
		t.Run(name, func(t *testing.T) {
			u := below
			c.u(&u)
			err := c.l.exceeded(u)
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, onefold.ErrFull)
			for _, part := range c.want {
				assert.ErrorContains(t, err, part)
			}
		})
	}
}

// hasBegun is the answer of Begin for a key.
func hasBegun(s *Store, id string, attempt uint64) (onefold.Grant, error) {
	return s.Begin(context.Background(), onefold.Request{
		Key: ofID(id), Lease: time.Minute, Holder: onefold.Holder{Process: 1, Attempt: attempt},
	})
}

func TestRefusalEndsWhenTheNumbersFall(t *testing.T) {
	clock := newHandClock()
	for name, o := range map[string]Options{
		"MaxWaiting":      {MaxWaiting: 1},
		"MaxWaitingBytes": {MaxWaitingBytes: 1 << 20},
		"MaxWaitingAge":   {MaxWaitingAge: time.Minute, Clock: clock.clock()},
		"MaxBytes":        {MaxBytes: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			o.hooks.probeEvery = time.Millisecond
			dir := t.TempDir()
			s := opened(t, dir, &o)
			refused := func() error {
				st, err := s.Stats(context.Background())
				require.NoError(t, err)
				return st.Err
			}
			large := messageOf("m")
			large.Payload = make([]byte, 1<<20)
			require.NoError(t, stored(t, s, entryOf("a", large)))
			clock.advance(time.Hour)
			require.Eventually(t, func() bool { return refused() != nil }, time.Minute, time.Millisecond)
			require.ErrorContains(t, refused(), name)

			require.NoError(t, s.Close(context.Background()))
			s = opened(t, dir, &o)
			if name != "MaxWaitingAge" { // by store clock, which has not gone on
				require.ErrorContains(t, refused(), name, "from the beginning")
			}
			require.NoError(t, settled(s, nextOf(t, feedOf(t, s)), onefold.Sent))
			require.NoError(t, refused())
			g, err := hasBegun(s, "fresh", 1)
			require.NoError(t, err)
			assert.Equal(t, onefold.Granted, g.Verdict)
		})
	}
}

func TestParkedEffectsAreNotCountedAsWaiting(t *testing.T) {
	s := opened(t, t.TempDir(), &Options{MaxWaiting: 1})
	require.NoError(t, stored(t, s, entryOf("a", messageOf("m"))))
	require.ErrorIs(t, stored(t, s, entryOf("b")), onefold.ErrFull)
	require.NoError(t, settled(s, nextOf(t, feedOf(t, s)), onefold.Parked))
	require.NoError(t, stored(t, s, entryOf("b")))
	assert.Zero(t, s.usage().waitingBytes)
}

func TestExpectationThatCannotFitIsRefusedWithTheFormula(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		o    Options
		want []string // nil: accepted
	}{
		"nothing":        {Options{MaxBytes: 1, MaxRecords: 1}, nil},
		"no limits":      {Options{Expect: Expectation{Rate: 1e6, Retain: 365 * day}}, nil},
		"fits":           {Options{MaxBytes: 100 * 130 * 86400, MaxRecords: 100 * 86400, Expect: Expectation{Rate: 100, Retain: day}}, nil},
		"records":        {Options{MaxRecords: 1_000_000, Expect: Expectation{Rate: 100, Retain: day}}, []string{"100 entries/s x 24h0m0s = 8640000 records", "MaxRecords is 1000000", "2h46m40s or less"}},
		"bytes":          {Options{MaxBytes: 1 << 30, Expect: Expectation{Rate: 100, Retain: day}}, []string{"100 entries/s x 24h0m0s x 130 bytes = 1123200000 bytes", "MaxBytes is 1073741824"}},
		"larger records": {Options{MaxBytes: 1 << 30, Expect: Expectation{Rate: 10, Retain: day, RecordBytes: 2000}}, []string{"x 2000 bytes"}},
		"no retention":   {Options{Expect: Expectation{Rate: 10}}, []string{"Expect.Retain is 0s"}},
		"no rate":        {Options{Expect: Expectation{Retain: day}}, []string{"Expect.Rate is 0"}},
		"no number":      {Options{Expect: Expectation{Rate: math.NaN(), Retain: day}}, []string{"Expect.Rate is NaN"}},
		"bad size":       {Options{Expect: Expectation{Rate: 1, Retain: day, RecordBytes: -1}}, []string{"Expect.RecordBytes is -1"}},
		"bad limit":      {Options{MaxRecords: -1}, []string{"Options.MaxRecords is -1"}},
		"short age":      {Options{MaxWaitingAge: 5}, []string{"is the unit right?"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.o.checked()
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, onefold.ErrInvalid)
			for _, part := range c.want {
				assert.ErrorContains(t, err, part)
			}
		})
	}
}
