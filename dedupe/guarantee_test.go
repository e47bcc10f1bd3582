package dedupe_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

// sound is a setup that breaks and weakens nothing.
func sound() dedupe.Setup {
	return dedupe.Setup{
		Name: "consumer ORDERS/billing", Concurrency: 8, MaxAttempts: 5, RetryMin: time.Second, RetryMax: 4 * time.Second,
		Lease: 30 * time.Second, Retention: 24 * time.Hour, AckWait: 30 * time.Second, MaxDeliver: -1, MaxAckPending: 11_000,
		MaxAge: time.Hour, DuplicateWindow: 2 * time.Minute, Replicas: 3, StoreDurable: true,
	}
}

func TestAssessNamesWhatBreaksAndWhatWeakensThePromise(t *testing.T) {
	require.Empty(t, dedupe.Assess(sound()).Findings)
	for _, c := range []struct {
		change func(s *dedupe.Setup)
		breaks bool
		text   string
	}{
		{func(s *dedupe.Setup) { s.MaxDeliver = 5 }, true, "MaxDeliver of the durable is 5"},
		{func(s *dedupe.Setup) { s.BackOff = 3 }, true, "BackOff of the durable has 3 delays"},
		{func(s *dedupe.Setup) { s.Retention = 59 * time.Second; s.DuplicateWindow = 0 }, true, "raise Retention to at least 1m0s"},
		{func(s *dedupe.Setup) { s.RepublishWithin = 25 * time.Hour }, true, "raise Retention to at least 25h0m0s"},
		{func(s *dedupe.Setup) { s.MaxAckPending = 7 }, true, "MaxAckPending is 7 and Concurrency 8"},
		{func(s *dedupe.Setup) { s.AckWait = 999 * time.Millisecond }, false, "AckWait is 999ms"},
		{func(s *dedupe.Setup) { s.DuplicateWindow = 48 * time.Hour }, false, "raise Retention to at least 48h0m0s"},
		{func(s *dedupe.Setup) { s.MaxAge = 10 * time.Second }, false, "5 attempts take 11s"},
		{func(s *dedupe.Setup) { s.DropsOld = true }, false, "drops its oldest messages"},
		{func(s *dedupe.Setup) { s.InMemory = true }, false, "kept in memory"},
		{func(s *dedupe.Setup) { s.Replicas = 1 }, false, "one replica"},
		{func(s *dedupe.Setup) { s.StoreDurable = false }, false, "does not survive the process"},
		{func(s *dedupe.Setup) { s.StoreShared, s.Lease = true, time.Minute }, false, "lower Lease to at most 30s"},
	} {
		s := sound()
		c.change(&s)
		g := dedupe.Assess(s)
		if assert.Len(t, g.Findings, 1, c.text) {
			assert.Contains(t, g.Findings[0].Text, c.text)
			assert.Equal(t, c.breaks, g.Findings[0].Breaks, c.text)
			assert.Contains(t, g.String(), c.text)
		}
		if c.breaks {
			require.ErrorIs(t, g.Err(), onefold.ErrInvalid)
			require.ErrorContains(t, g.Err(), c.text)
		} else {
			require.NoError(t, g.Err(), c.text)
		}
	}
}

func TestLimitsThatAreNotSetBreakNothing(t *testing.T) {
	s := sound()
	s.MaxAge, s.MaxAckPending, s.MaxDeliver, s.RepublishWithin = 0, -1, 0, s.Retention
	assert.Empty(t, dedupe.Assess(s).Findings)
	assert.Zero(t, s.RateCeiling())
}

func TestRetryHorizonIsTheSumOfTheDelaysBetweenAttempts(t *testing.T) {
	for _, c := range []struct {
		attempts int
		want     time.Duration
	}{{1, 0}, {2, time.Second}, {3, 3 * time.Second}, {4, 7 * time.Second}, {6, 15 * time.Second}} {
		s := dedupe.Setup{MaxAttempts: c.attempts, RetryMin: time.Second, RetryMax: 4 * time.Second}
		assert.Equal(t, c.want, s.RetryHorizon(), "%d attempts", c.attempts)
	}
	s := dedupe.Setup{MaxAttempts: 1 << 30, RetryMin: 1 << 61, RetryMax: 1 << 62}
	assert.Positive(t, s.RetryHorizon(), "it does not overflow")
}

func ExampleAssess() {
	g := dedupe.Assess(dedupe.Setup{
		Name: "consumer ORDERS/billing", Concurrency: 8, MaxAttempts: 20, RetryMin: 250 * time.Millisecond, RetryMax: 5 * time.Minute,
		Lease: 30 * time.Second, Retention: 24 * time.Hour, RepublishWithin: 72 * time.Hour,
		AckWait: 30 * time.Second, MaxDeliver: -1, MaxAckPending: 10_000, Replicas: 3, StoreDurable: true,
	})
	fmt.Print(g)
	fmt.Println(g.Err() != nil)
	// Output:
	// consumer ORDERS/billing
	//   the effects of a message are applied once, if its copies come within 24h0m0s after its end
	//   a redelivery of a stream message that was acked is answered for as long as the store lives
	//   after a crash a message comes again within 30s
	//   a failing message is tried 20 times within 48m32s, and then is a dead letter
	//   MaxAckPending 10000 allows about 909090 messages/s if a commit takes 5ms
	//   BROKEN: RepublishWithin is 72h0m0s and Retention 24h0m0s: a copy that is published in between runs again; raise Retention to at least 72h0m0s
	// true
}
