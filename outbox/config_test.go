package outbox

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/memstore"
)

// someJetStream stands for a JetStream context that is never used.
type someJetStream struct{ jetstream.JetStream }

func TestZeroFieldsTakeTheirDefaults(t *testing.T) {
	c := Config{JetStream: someJetStream{}}.withDefaults()
	require.NoError(t, c.check())
	assert.Equal(t, 1024, c.Window)
	assert.Equal(t, 20, c.MaxAttempts)
	assert.Equal(t, 100*time.Millisecond, c.RetryMin)
	assert.Equal(t, time.Minute, c.RetryMax)
	assert.Equal(t, 5*time.Second, c.PublishTimeout)
	assert.Equal(t, 30*time.Second, c.Lease)
	assert.Equal(t, 5*time.Second, c.ShutdownTimeout)
	assert.False(t, c.SkipParked)
	assert.NotNil(t, c.Observer)
}

func TestABadFieldIsRefusedWithItsNameValueAndRemedy(t *testing.T) {
	js := someJetStream{}
	for want, c := range map[string]Config{
		"JetStream is nil; give the result of jetstream.New":            {},
		"Window is -1; it must be positive, or 0 for 1024":              {JetStream: js, Window: -1},
		"MaxAttempts is -1; it must be positive, or 0 for 20":           {JetStream: js, MaxAttempts: -1},
		"RetryMin is -1ns; it must be positive, or 0 for 100ms":         {JetStream: js, RetryMin: -1},
		"RetryMin is 100ns; it must be at least 1ms (is the unit right": {JetStream: js, RetryMin: 100},
		"RetryMax is 1ms, shorter than RetryMin 1s; make it longer":     {JetStream: js, RetryMin: time.Second, RetryMax: time.Millisecond},
		"RetryMax is 60ns; it must be at least 1ms (is the unit":        {JetStream: js, RetryMax: 60},
		"PublishTimeout is 1h0m0s, Lease is 30s; rows would be":         {JetStream: js, PublishTimeout: time.Hour},
		"PublishTimeout is 5ns; it must be at least 1ms (is the unit":   {JetStream: js, PublishTimeout: 5},
		"Lease is -1ns; it must be positive, or 0 for 30s":              {JetStream: js, Lease: -1},
		"Lease is 30µs; it must be at least 100ms (is the unit right":   {JetStream: js, Lease: 30 * time.Microsecond},
		"ShutdownTimeout is -1ns; it must be positive, or 0 for 5s":     {JetStream: js, ShutdownTimeout: -1},
		"ShutdownTimeout is 5ns; it must be at least 1ms (is the unit":  {JetStream: js, ShutdownTimeout: 5},
	} {
		_, err := NewRelay(memstore.New(), c)
		require.ErrorIs(t, err, onefold.ErrInvalid)
		assert.Contains(t, err.Error(), "outbox.Config."+want)
		assert.NotContains(t, err.Error(), "\n", "one field is wrong")
	}
}

func TestAllBadFieldsAreReportedTogether(t *testing.T) {
	_, err := NewRelay(nil, Config{
		Window: -1, MaxAttempts: -1, RetryMin: 1, RetryMax: 1, PublishTimeout: 1, Lease: 1, ShutdownTimeout: 1,
	})
	require.ErrorIs(t, err, onefold.ErrInvalid)
	for _, part := range []string{
		"store is nil", ".JetStream", ".Window", ".MaxAttempts", ".RetryMin", ".RetryMax", ".PublishTimeout", ".Lease", ".ShutdownTimeout",
	} {
		assert.Contains(t, err.Error(), part)
	}
}

func TestALongRetryMinMovesTheDefaultRetryMax(t *testing.T) {
	c := Config{JetStream: someJetStream{}, RetryMin: time.Hour}.withDefaults()
	require.NoError(t, c.check())
	assert.Equal(t, time.Hour, c.RetryMax)
}

func TestTheShortestTimesAreAccepted(t *testing.T) {
	require.NoError(t, Config{
		JetStream: someJetStream{}, RetryMin: minDuration, RetryMax: minDuration, PublishTimeout: minDuration, Lease: minLease,
		ShutdownTimeout: minDuration,
	}.withDefaults().check())
}
