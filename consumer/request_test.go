package consumer_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

// doubling answers with its body twice and counts its runs.
func doubling(runs *atomic.Int64) onefold.Handler {
	return func(_ context.Context, m *onefold.Message, fx *onefold.Effects) error {
		runs.Add(1)
		if len(m.Data) == 0 {
			return onefold.Permanent(errors.New("nothing to double"))
		}
		fx.Result([]byte(string(m.Data) + string(m.Data)))
		return nil
	}
}

func TestARequestIsAnsweredWithTheResultAndARepeatFromTheStore(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	r.start(r.config(doubling(&runs)))
	for range 3 {
		reply, err := consumer.Request(r.ctx, r.js, "order 1", &nats.Msg{Subject: "in.a", Data: []byte("ab")})
		require.NoError(t, err)
		assert.Equal(t, onefold.Succeeded, reply.Outcome)
		assert.Equal(t, "abab", string(reply.Result))
	}
	assert.EqualValues(t, 1, runs.Load())
	assert.Equal(t, 3, r.stored("IN"), "the window of the stream swallows no repeat")
}

func TestARequestThatEndsAsADeadLetterSaysWhy(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int64
	r.relay()
	r.start(r.config(doubling(&runs)))
	reply, err := consumer.Request(r.ctx, r.js, "1", &nats.Msg{Subject: "in.a"})
	require.ErrorIs(t, err, consumer.ErrNoResult)
	require.ErrorContains(t, err, "nothing to double")
	assert.Equal(t, onefold.DeadLettered, reply.Outcome)

	_, err = consumer.Request(r.ctx, r.js, "2", &nats.Msg{Subject: "in.a", Data: []byte("a")})
	require.NoError(t, err)
	_, err = consumer.Request(r.ctx, r.js, "2", &nats.Msg{Subject: "in.a", Data: []byte("b")})
	require.ErrorIs(t, err, consumer.ErrNoResult, "an ID stands for one payload")
	require.ErrorContains(t, err, "id reused with different payload")
}

func TestCopiesThatWaitForARunningRequestAreAnsweredWithIt(t *testing.T) {
	r := newRig(t)
	g := newGate()
	r.start(r.config(func(ctx context.Context, _ *onefold.Message, fx *onefold.Effects) error {
		fx.Result([]byte("once"))
		return g.pass(ctx)
	}))
	answers := make(chan consumer.Reply, 3)
	for range 3 {
		go func() {
			reply, err := consumer.Request(r.ctx, r.js, "1", &nats.Msg{Subject: "in.a"})
			assert.NoError(t, err)
			answers <- reply
		}()
	}
	r.await1(g.entered)
	r.awaitCount("followed", 2)
	close(g.open)
	for range 3 {
		assert.Equal(t, "once", string((<-answers).Result))
	}
	assert.Equal(t, 1, r.count("handled"))
}

func TestARequestThatIsNotAnsweredInTimeLeavesItsOutcomeOpen(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
	defer cancel()
	_, err := consumer.Request(ctx, r.js, "1", &nats.Msg{Subject: "in.a"})
	require.ErrorIs(t, err, context.DeadlineExceeded)

	var runs atomic.Int64
	r.start(r.config(doubling(&runs)))
	reply, err := consumer.Request(r.ctx, r.js, "2", &nats.Msg{Subject: "in.a", Data: []byte("x")})
	require.NoError(t, err)
	assert.Equal(t, "xx", string(reply.Result))
}

func TestAMessageCannotHaveItsAnswerSentAnywhere(t *testing.T) {
	r := newRig(t)
	sub, err := r.nc.SubscribeSync("secrets.>")
	require.NoError(t, err)
	var runs atomic.Int64
	r.start(r.config(doubling(&runs)))
	for i, subject := range []string{"secrets.a", "_INBOX.*", "$JS.API.STREAM.DELETE.IN", "_INBOX.a b"} {
		r.send(&nats.Msg{Subject: "in.a", Data: []byte("x"), Header: nats.Header{
			onefold.HeaderID: {strings.Repeat("i", i+1)}, consumer.HeaderReplyTo: {subject},
		}})
	}
	r.awaitCount("acked", 4)
	require.NoError(t, r.nc.Flush())
	n, _, err := sub.Pending()
	require.NoError(t, err)
	assert.Zero(t, n)
	assert.Equal(t, 4, r.stored("IN"), "the stream is still there")
}

func TestARequestWithoutAnIDOrASubjectIsRefused(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		id string
		m  *nats.Msg
	}{{"", &nats.Msg{Subject: "in.a"}}, {"a\nb", &nats.Msg{Subject: "in.a"}}, {"1", &nats.Msg{}}, {"1", nil}, {"1", &nats.Msg{Subject: "in.*"}}} {
		_, err := consumer.Request(r.ctx, r.js, c.id, c.m)
		require.ErrorIs(t, err, onefold.ErrInvalid)
	}
}
