package consumer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

func TestTheReportSaysWhatIsPromisedBeforeAndAfterTheDurableIsMade(t *testing.T) {
	r := newRig(t)
	_, err := r.js.UpdateStream(r.ctx, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}, MaxAge: time.Minute, Duplicates: time.Minute})
	require.NoError(t, err)
	c := r.config(nothing)
	c.RetryMin, c.RetryMax = time.Second, time.Hour
	work, err := consumer.New(r.js, r.st, c)
	require.NoError(t, err)
	before, err := work.Guarantee(r.ctx)
	require.NoError(t, err)
	require.NoError(t, before.Err())
	assert.Contains(t, before.String(), "MaxAge of the stream is 1m0s")
	_, err = r.js.Consumer(r.ctx, c.Stream, c.Name)
	require.ErrorIs(t, err, jetstream.ErrConsumerNotFound, "nothing is made")

	running := r.start(c)
	r.publish("1", "")
	r.awaitCount("acked", 1)
	running.end()
	after, err := work.Guarantee(r.ctx)
	require.NoError(t, err)
	assert.Equal(t, before, after)

	c.Stream = "OTHER"
	work, err = consumer.New(r.js, r.st, c)
	require.NoError(t, err)
	_, err = work.Guarantee(r.ctx)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}

func TestWhatWeakensThePromiseIsToldAndWhatBreaksItIsRefused(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{Name: "MEM", Subjects: []string{"mem"}, Storage: jetstream.MemoryStorage})
	told := make(chan onefold.WarnEvent, 10)
	c := r.config(nothing)
	c.Stream = "MEM"
	c.Observer = &onefold.Observer{Warned: func(e onefold.WarnEvent) { told <- e }}
	running := r.start(c)
	for {
		e := <-told
		assert.Equal(t, "consumer MEM/work", e.Part)
		if strings.Contains(e.Text, "kept in memory") {
			break
		}
	}
	running.end()

	c.Retention, c.RepublishWithin = time.Hour, 2*time.Hour
	err := r.start(c).err()
	require.ErrorIs(t, err, onefold.ErrInvalid)
	require.ErrorContains(t, err, "raise Retention to at least 2h0m0s")
}
