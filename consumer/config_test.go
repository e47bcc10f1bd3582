package consumer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
	"github.com/onefold-go/onefold/store/memstore"
)

func good() Config {
	return Config{Stream: "IN", Name: "work", Handler: func(context.Context, *onefold.Message, *onefold.Effects) error { return nil }}
}

// unconnected is a JetStream context that New does not use.
func unconnected(t *testing.T) jetstream.JetStream {
	js, err := jetstream.New(&nats.Conn{})
	require.NoError(t, err)
	return js
}

func TestABadConfigurationIsRefusedByNewWithTheNameOfTheField(t *testing.T) {
	js, st := unconnected(t), memstore.New()
	for field, change := range map[string]func(*Config){
		"Stream is empty":        func(c *Config) { c.Stream = "" },
		"Stream is \"a.b\"":      func(c *Config) { c.Stream = "a.b" },
		"Name is empty":          func(c *Config) { c.Name = "" },
		"Name is \"a b\"":        func(c *Config) { c.Name = "a b" },
		"Handler is nil":         func(c *Config) { c.Handler = nil },
		"Handler is nil;":        func(c *Config) { c.Handler = Raw(nil) },
		"Handler is nil; ":       func(c *Config) { c.Handler = JSON[int](nil) },
		"DeadLetterSubject":      func(c *Config) { c.DeadLetterSubject = "dead.>" },
		"DeadLetterStream":       func(c *Config) { c.DeadLetterStream = "a*" },
		"Concurrency is -1":      func(c *Config) { c.Concurrency = -1 },
		"MaxAttempts is -1":      func(c *Config) { c.MaxAttempts = -1 },
		"RetryMin is -1":         func(c *Config) { c.RetryMin = -1 },
		"RetryMin is 2h":         func(c *Config) { c.RetryMin, c.RetryMax = 2*time.Hour, time.Hour },
		"AckWait is -1":          func(c *Config) { c.AckWait = -1 },
		"AckWait is 30ns":        func(c *Config) { c.AckWait = 30 },
		"Lease is 1ms":           func(c *Config) { c.Lease = time.Millisecond },
		"Retention is -1":        func(c *Config) { c.Retention = -1 },
		"MaxAckPending is 3":     func(c *Config) { c.MaxAckPending = 3 },
		"Retention is 24ns":      func(c *Config) { c.Retention = 24 },
		"RetryMin is 250ns":      func(c *Config) { c.RetryMin = 250 },
		"RelayWithin is 60ns":    func(c *Config) { c.RelayWithin = 60 },
		"RateLimit has a bur":    func(c *Config) { c.RateLimit = rate.NewLimiter(5, 0) },
		"HandlerTimeout is 15ns": func(c *Config) { c.HandlerTimeout = 15 },
		"HandlerTimeout is -1":   func(c *Config) { c.HandlerTimeout = -1 },
		"ShutdownTimeout is ":    func(c *Config) { c.ShutdownTimeout = 20 },
		"Lease is 1h":            func(c *Config) { c.Lease, c.Retention = time.Hour, time.Minute },
		"FilterSubjects: \"a":    func(c *Config) { c.FilterSubjects = []string{"in.>", "a b"} },
		"FilterSubjects: \">":    func(c *Config) { c.FilterSubjects = []string{">.a"} },
		"ID: ":                   func(c *Config) { c.ID = dedupe.HeaderID() },
		"ShutdownTimeout":        func(c *Config) { c.ShutdownTimeout = -1 },
		"StartSequence is 5":     func(c *Config) { c.StartSequence = 5 },
		"StartSequence is 0":     func(c *Config) { c.DeliverPolicy = jetstream.DeliverByStartSequencePolicy },
		"StartTime is 0001":      func(c *Config) { c.DeliverPolicy = jetstream.DeliverByStartTimePolicy },
		"StartTime is 1970-0":    func(c *Config) { c.StartTime = time.Unix(0, 0).UTC() },
	} {
		t.Run(field, func(t *testing.T) {
			c := good()
			change(&c)
			_, err := New(js, st, c)
			require.ErrorIs(t, err, onefold.ErrInvalid)
			assert.ErrorContains(t, err, "Config."+field)
		})
	}
	_, err := New(js, st, Config{})
	for _, field := range []string{"Config.Stream", "Config.Name", "Config.Handler"} {
		assert.ErrorContains(t, err, field, "all at once")
	}
	assert.NotContains(t, err.Error(), "DeadLetterSubject", "which is made of the names that are wrong")
	_, err = New(nil, st, good())
	require.ErrorIs(t, err, onefold.ErrInvalid)
	_, err = New(js, nil, good())
	require.ErrorIs(t, err, onefold.ErrInvalid)
	fine := good()
	fine.FilterSubjects = []string{"in.*.a", "other.>"}
	fine.ID = func(m *onefold.Message) (string, error) { return m.Header["Id"][0], nil } // cannot stand an empty message
	_, err = New(js, st, fine)
	require.NoError(t, err)
}

func TestWhatMayPassAtTheStartIsWaitedForAndWhatMayNotEndsRun(t *testing.T) {
	for _, err := range []error{
		context.DeadlineExceeded, onefold.ErrUnavailable, onefold.ErrFull,
		&jetstream.APIError{Code: 503, ErrorCode: 10008}, &jetstream.APIError{Code: 429},
	} {
		assert.True(t, passing(fmt.Errorf("look up: %w", err)), "%v", err)
	}
	for _, err := range []error{
		jetstream.ErrStreamNotFound, jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount,
		&jetstream.APIError{Code: 400}, onefold.ErrInvalid, onefold.ErrDamaged, ErrScopeInUse,
	} {
		assert.False(t, passing(fmt.Errorf("look up: %w", err)), "%v", err)
	}
}

func TestTheDefaultsAreTheDocumentedOnes(t *testing.T) {
	c := good().withDefaults()
	assert.Equal(t, DefaultConcurrency, c.Concurrency)
	assert.Equal(t, DefaultMaxAttempts, c.MaxAttempts)
	assert.Equal(t, DefaultRetryMin, c.RetryMin)
	assert.Equal(t, DefaultRetryMax, c.RetryMax)
	assert.Equal(t, DefaultLease, c.Lease)
	assert.Equal(t, DefaultRetention, c.Retention)
	assert.Equal(t, DefaultShutdownTimeout, c.ShutdownTimeout)
	assert.Equal(t, DefaultHandlerTimeout, c.HandlerTimeout)
	assert.Equal(t, "IN/work", c.Scope)
	assert.Equal(t, "onefold.dead.IN.work", c.DeadLetterSubject)
	assert.Equal(t, "ONEFOLD_DEAD", c.DeadLetterStream)
	assert.NotNil(t, c.ID)
	assert.NotNil(t, c.Fingerprint)
	long := good()
	long.RetryMin = time.Hour
	assert.Equal(t, time.Hour, long.withDefaults().RetryMax)

	made := newConsumerConfig(c)
	assert.Equal(t, DefaultAckWait, made.AckWait)
	assert.Equal(t, DefaultMaxAckPending, made.MaxAckPending)
	assert.Equal(t, -1, made.MaxDeliver)
	assert.Equal(t, jetstream.AckExplicitPolicy, made.AckPolicy)
	assert.Equal(t, "work", made.Durable)
}

func TestANewConsumerStartsWhereConfigSaysUnlessItWasLost(t *testing.T) {
	bySequence, byTime := good(), good()
	bySequence.DeliverPolicy, bySequence.StartSequence = jetstream.DeliverByStartSequencePolicy, 7
	byTime.DeliverPolicy, byTime.StartTime = jetstream.DeliverByStartTimePolicy, time.Unix(9, 0)
	assert.EqualValues(t, 7, newConsumerConfig(bySequence).OptStartSeq)
	assert.Equal(t, time.Unix(9, 0), *newConsumerConfig(byTime).OptStartTime)
	for _, c := range []Config{good(), bySequence, byTime} {
		lost := startBehind(newConsumerConfig(c), 41)
		assert.Equal(t, jetstream.DeliverByStartSequencePolicy, lost.DeliverPolicy)
		assert.EqualValues(t, 42, lost.OptStartSeq)
		assert.Nil(t, lost.OptStartTime)
	}
}

func TestOnlyWhatIsManagedIsChanged(t *testing.T) {
	found := jetstream.ConsumerConfig{Durable: "work", Description: "d", Metadata: map[string]string{"a": "b"}, AckWait: 77, MaxAckPending: 5,
		MaxDeliver: 9, BackOff: []time.Duration{1}, FilterSubject: "in.a"}
	got := managed(found, good())
	want := found
	want.MaxDeliver, want.BackOff = -1, nil
	assert.Equal(t, want, got)
	assert.False(t, sameManaged(found, got))
	assert.True(t, sameManaged(got, got))

	c := good()
	c.AckWait, c.MaxAckPending, c.FilterSubjects = 88, 6, []string{"in.a"}
	got = managed(want, c)
	assert.EqualValues(t, 88, got.AckWait)
	assert.Equal(t, 6, got.MaxAckPending)
	assert.Equal(t, []string{"in.a"}, got.FilterSubjects)
	assert.Empty(t, got.FilterSubject)
	want.AckWait, want.MaxAckPending = 88, 6
	assert.True(t, sameManaged(want, got), "one filter in either form is the same")
}
