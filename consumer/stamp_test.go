package consumer_test

import (
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

func TestCopiesOfAStampedMessageAreDroppedByTheStreamAndBeyondItsWindowByTheConsumer(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	w := r.start(r.config(counting(&runs)))
	stamped := func() *nats.Msg {
		m := nats.NewMsg("in.a")
		m.Data = []byte("x")
		_, err := dedupe.Stamp(onefold.Header(m.Header), "order", "7", "line\r\nbreak")
		require.NoError(t, err)
		return m
	}
	first, err := r.js.PublishMsg(r.ctx, stamped())
	require.NoError(t, err)
	again, err := r.js.PublishMsg(r.ctx, stamped())
	require.NoError(t, err)
	assert.False(t, first.Duplicate)
	assert.True(t, again.Duplicate)

	late := stamped()
	late.Header.Set(dedupe.HeaderTransportID, "forgotten") // as if the stream had forgotten the first
	ack, err := r.js.PublishMsg(r.ctx, late)
	require.NoError(t, err)
	assert.False(t, ack.Duplicate)
	r.awaitCount("duplicate", 1)
	w.end()
	assert.EqualValues(t, 1, runs.Load())
	record, err := r.st.Lookup(r.ctx, onefold.Key{Scope: "IN/work", ID: "order/7/line%0D%0Abreak"})
	require.NoError(t, err)
	assert.Equal(t, onefold.Succeeded, record.Outcome)
}
