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
	c, err := Config{JetStream: someJetStream{}}.withDefaults()
	require.NoError(t, err)
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

func TestBadConfigurationNamesItsField(t *testing.T) {
	js := someJetStream{}
	for field, c := range map[string]Config{
		"JetStream":       {},
		"Window":          {JetStream: js, Window: -1},
		"MaxAttempts":     {JetStream: js, MaxAttempts: -1},
		"RetryMin":        {JetStream: js, RetryMin: -1},
		"RetryMax":        {JetStream: js, RetryMin: time.Second, RetryMax: time.Millisecond},
		"PublishTimeout":  {JetStream: js, PublishTimeout: time.Hour},
		"Lease":           {JetStream: js, Lease: -1},
		"ShutdownTimeout": {JetStream: js, ShutdownTimeout: -1},
	} {
		_, err := NewRelay(memstore.New(), c)
		require.ErrorIs(t, err, onefold.ErrInvalid)
		assert.Contains(t, err.Error(), "outbox.Config."+field)
	}
	_, err := NewRelay(nil, Config{JetStream: js})
	require.ErrorIs(t, err, onefold.ErrInvalid)
}

func TestALongRetryMinMovesTheDefaultRetryMax(t *testing.T) {
	c, err := Config{JetStream: someJetStream{}, RetryMin: time.Hour}.withDefaults()
	require.NoError(t, err)
	assert.Equal(t, time.Hour, c.RetryMax)
}
