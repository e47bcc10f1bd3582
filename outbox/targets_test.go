package outbox

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
)

func TestWhatWeakensThePromiseInATargetStreamIsSaidWithItsNumbers(t *testing.T) {
	good := jetstream.StreamConfig{Name: "OUT", Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute}
	for name, c := range map[string]struct {
		change func(*jetstream.StreamConfig)
		want   string
	}{
		"good":                   {func(*jetstream.StreamConfig) {}, ""},
		"a limit that refuses":   {func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 9, jetstream.DiscardNew }, ""},
		"no limit to discard at": {func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, ""},
		"memory":                 {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "Storage is memory"},
		"window":                 {func(c *jetstream.StreamConfig) { c.Duplicates = 30 * time.Second }, "window is 30s, and a row may be sent again after 1m5s"},
		"messages":               {func(c *jetstream.StreamConfig) { c.MaxMsgs = 9 }, "discards old messages"},
		"bytes":                  {func(c *jetstream.StreamConfig) { c.MaxBytes = 9 }, "discards old messages"},
		"messages of a subject":  {func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 9 }, "discards old messages"},
		"interest":               {func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }, "Retention is interest"},
	} {
		t.Run(name, func(t *testing.T) {
			is := good
			c.change(&is)
			texts := weakTarget(is, 65*time.Second)
			if c.want == "" {
				assert.Empty(t, texts)
				return
			}
			if assert.Len(t, texts, 1) {
				assert.Contains(t, texts[0], "stream OUT, to which effects are sent: ")
				assert.Contains(t, texts[0], c.want)
			}
		})
	}
}

func TestALookThatTheEndCutsShortIsTakenAgain(t *testing.T) {
	s := &session{relay: &Relay{targets: targets{}}, looks: make(chan string, 1)}
	asked := make(chan string)
	s.relay.config = Config{JetStream: mute{asked: asked}, PublishTimeout: time.Hour}
	s.arrived(&jetstream.PubAck{Stream: "A"})
	ctx, end := context.WithCancel(t.Context())
	looking := make(chan struct{})
	go func() { defer close(looking); s.lookAtTargets(ctx) }()
	assert.Equal(t, "A", <-asked)
	s.arrived(&jetstream.PubAck{Stream: "B"})
	end()
	<-looking
	assert.Len(t, s.relay.targets, 2)
	s.unseen()
	assert.Empty(t, s.relay.targets)
}

// mute never answers.
type mute struct {
	jetstream.JetStream
	asked chan<- string
}

func (m mute) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	m.asked <- name
	<-ctx.Done()
	return nil, ctx.Err()
}
