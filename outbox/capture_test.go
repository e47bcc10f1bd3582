package outbox

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
)

func nobody(subjects ...string) (answers []answer) {
	for _, s := range subjects {
		answers = append(answers, answer{row: &onefold.Row{Effect: onefold.Effect{Target: s}}, err: jetstream.ErrNoStreamResponse})
	}
	return answers
}

// asked returns captures that keep the time of the bubble, and what they asked.
func asked(answers func(ctx context.Context, subject string) capture) (*captures, *[]string) {
	questions, start := &[]string{}, time.Now()
	return &captures{
		timeout: 5 * time.Second,
		now:     func() time.Duration { return time.Since(start) },
		ask: func(ctx context.Context, subject string) capture {
			*questions = append(*questions, subject)
			return answers(ctx, subject)
		},
	}, questions
}

func TestASubjectIsAskedAboutOnceInAWhileAndOnlyIfNoStreamAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, questions := asked(func(_ context.Context, subject string) capture {
			if subject == "a" {
				return notCaptured
			}
			return captured
		})
		c.learn(t.Context(), []answer{
			{row: &onefold.Row{Effect: onefold.Effect{Target: "sent"}}},
			{row: &onefold.Row{Effect: onefold.Effect{Target: "refused"}}, err: nats.ErrMaxPayload},
			{row: &onefold.Row{Effect: onefold.Effect{Target: "called"}}, call: &callEnd{}, err: context.DeadlineExceeded},
		})
		assert.Empty(t, *questions)
		c.learn(t.Context(), []answer{{row: &onefold.Row{Effect: onefold.Effect{Target: "slow"}}, err: nats.ErrTimeout}})
		assert.Equal(t, []string{"slow"}, *questions)
		*questions = nil
		c.learn(t.Context(), nobody("a", "b", "a"))
		c.learn(t.Context(), nobody("b", "a"))
		assert.Equal(t, []string{"a", "b"}, *questions)
		assert.Equal(t, notCaptured, c.of("a"))
		assert.Equal(t, captured, c.of("b"))
		assert.Equal(t, captureUnknown, c.of("c"))

		start := c.now()
		c.now = func() time.Duration { return start + captureLife }
		assert.Equal(t, captureUnknown, c.of("a"), "an old answer does not count")
		c.learn(t.Context(), nobody("a"))
		assert.Equal(t, []string{"a", "b", "a"}, *questions)
	})
}

func TestAllQuestionsOfABatchShareOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, questions := asked(func(ctx context.Context, subject string) capture {
			if subject == "a" {
				return notCaptured
			}
			<-ctx.Done()
			return captureUnknown
		})
		start := time.Now()
		c.learn(t.Context(), nobody("a", "b", "c", "d"))
		assert.Equal(t, c.timeout, time.Since(start))
		assert.Equal(t, []string{"a", "b"}, *questions, "the first without an answer ends the questions")
		assert.Equal(t, captureUnknown, c.of("c"))

		c.learn(t.Context(), nobody("b", "c"))
		assert.Equal(t, c.timeout, time.Since(start), "nor is the next batch held up")
		silent := c.now() + silenceFactor*c.timeout
		c.now = func() time.Duration { return silent }
		c.learn(t.Context(), nobody("a"))
		assert.Equal(t, []string{"a", "b", "a"}, *questions, "later JetStream is asked again")
	})
}

func TestKnownSubjectsStayBounded(t *testing.T) {
	c, questions := asked(func(context.Context, string) capture { return captured })
	c.now = func() time.Duration { return 0 }
	for i := range 3 * maxCaptures {
		c.learn(t.Context(), nobody(strconv.Itoa(i)))
		assert.LessOrEqual(t, len(c.known), maxCaptures)
	}
	assert.Len(t, *questions, 3*maxCaptures)
}
