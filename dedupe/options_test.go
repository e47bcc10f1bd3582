package dedupe_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

func TestABadOptionIsRefusedWithItsNameValueAndRemedy(t *testing.T) {
	st := openStore(t)
	for want, o := range map[string]dedupe.GuardOptions{
		`Scope is ""; name what`:                                      {},
		"Lease is -1ns; it must be positive, or 0 for 30s":            {Lease: -1},
		"Lease is 30ns; it must be at least 100ms (is the unit right": {Lease: 30},
		"Retention is -1ns; it must be positive, or 0 for 24h0m0s":    {Retention: -1},
		"Retention is 86.4µs; it must be at least 1s (is the unit":    {Retention: 86400},
		"Retention is 1m0s, shorter than Lease 2m0s; make it longer":  {Lease: 2 * time.Minute, Retention: time.Minute},
		"CommitTimeout is -1ns; it must be positive, or 0 for 10s":    {CommitTimeout: -1},
		"CommitTimeout is 10ns; it must be at least 1ms (is the unit": {CommitTimeout: 10},
		"Wait is -1ns; it must be at least 1ms (is the unit right?)":  {Wait: -1},
		"Wait is 30ns; it must be at least 1ms (is the unit right?)":  {Wait: 30},
		"MaxPayload is -1; it must be positive, or 0 for 1048576":     {MaxPayload: -1},
	} {
		if want[:5] != "Scope" {
			o.Scope = "s"
		}
		_, err := dedupe.NewGuard(st, o)
		require.ErrorIs(t, err, onefold.ErrInvalid)
		assert.Contains(t, err.Error(), "GuardOptions."+want)
		assert.NotContains(t, err.Error(), "\n", "one field is wrong")
	}
}

func TestAllBadOptionsAreReportedTogether(t *testing.T) {
	_, err := dedupe.NewGuard(nil, dedupe.GuardOptions{Lease: 1, Retention: 1, CommitTimeout: -1, MaxPayload: -1})
	require.ErrorIs(t, err, onefold.ErrInvalid)
	for _, part := range []string{"store is nil", ".Scope", ".Lease", ".Retention", ".CommitTimeout", ".MaxPayload"} {
		assert.Contains(t, err.Error(), part)
	}
}

func TestTheShortestOptionsAndALongLeaseAreAccepted(t *testing.T) {
	st := openStore(t)
	_, err := dedupe.NewGuard(st, dedupe.GuardOptions{
		Scope: "s", Lease: 100 * time.Millisecond, Retention: time.Second, CommitTimeout: time.Millisecond,
	})
	require.NoError(t, err)
	_, err = dedupe.NewGuard(st, dedupe.GuardOptions{Scope: "s", Lease: 48 * time.Hour})
	require.NoError(t, err, "the default retention grows with the lease")
}

func TestABlankIDAndANilFunctionAreRefused(t *testing.T) {
	g := newGuard(t, openStore(t))
	_, err := g.Do(t.Context(), " \t", noCheck, answer(new(int), "x"))
	require.ErrorIs(t, err, dedupe.ErrMissingID)
	_, err = g.Do(t.Context(), "p-1", noCheck, nil)
	require.ErrorIs(t, err, onefold.ErrInvalid)
}
